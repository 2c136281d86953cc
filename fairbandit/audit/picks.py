"""From the rows of a run to how often each group was picked in each round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.run import summary as summaries
from fairbandit.run.folder import ROUNDS, SUMMARY, finished_below
from fairbandit.run.stored import row_files

_ROWS = 1 << 20  # read at once

FORGETFUL = {"estimator": ("oracle", "zero"), "rank": ("oracle_cdf", "identity")}
"""Parts with which a round's decision depends on nothing but its own pool."""


@dataclass(frozen=True)
class Picks:
    """The decisions of one run.

    Attributes:
        label: what reports call the run.
        policy: its policy.
        environment: its environment.
        groups: the groups' names.
        rounds: T.
        replicas: B.
        counts: how many replicas picked each group in each round, (T, G) int64.
        received: candidates of each group in all rounds and replicas, (G,).
        rates: mean and standard deviation over replicas of selected ÷ received, (G, 2); NaN where
            unknown.
        own_places: whether each pool held one candidate of each group, so that a place is a group.
        forgetful: whether decisions of different rounds are independent.
    """

    label: str
    policy: str
    environment: str
    groups: tuple[str, ...]
    rounds: int
    replicas: int
    counts: Tensor
    received: Tensor
    rates: Tensor
    own_places: bool
    forgetful: bool

    @property
    def places(self) -> float:
        """K, the mean number of candidates in a pool: not whole where there are empty places."""
        return float(self.received.sum()) / (self.rounds * self.replicas)


def read_picks(folders: Sequence[Path]) -> list[Picks]:
    """The decisions of every finished run in some folders, at any depth.

    Args:
        folders: where to look.

    Returns:
        The runs, in order of their folders; one whose policy another has too is labelled with
        its environment or, where that does not tell them apart, its folder.

    Raises:
        FairbanditError: a folder that is not there, no run at all, or rows that are missing.
    """
    places = [place for folder in folders for place in _runs(folder)]
    places = list({place.resolve(): place for place in places}.values())
    if not places:
        raise FairbanditError(
            f"no finished run below {', '.join(map(str, folders))}: a run leaves a {SUMMARY}"
        )
    read = [summaries.read(place) for place in places]
    return [
        _picks(place, summary, label)
        for place, summary, label in zip(places, read, _labels(places, read), strict=True)
    ]


def _runs(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise FairbanditError(f"there is no folder {folder}")
    yield from sorted(map(Path, finished_below(folder)))


def _labels(places: Sequence[Path], read: Sequence[Mapping[str, Any]]) -> list[str]:
    policies = [str(summary["policy"]) for summary in read]
    worlds = [f"{summary['policy']}, {summary['environment']}" for summary in read]
    labels = []
    for place, policy, world in zip(places, policies, worlds, strict=True):
        if policies.count(policy) == 1:
            labels.append(policy)
        else:
            labels.append(world if worlds.count(world) == 1 else f"{policy}, {place.name}")
    return labels


def _picks(place: Path, summary: Mapping[str, Any], label: str) -> Picks:
    groups, rounds, replicas = tuple(summary["groups"]), summary["rounds"], summary["replicas"]
    received = _spreads(summary["received"], groups)
    parts = {
        kind: part.get("name")
        for kind, part in summary["config"]["policy"].items()
        if isinstance(part, Mapping)
    }
    # one candidate of each group a round: the paper's first setting, a place being a group
    own = bool((received[:, 0] == rounds).all()) and not bool((received[:, 1] > 0).any())
    return Picks(
        label=label,
        policy=summary["policy"],
        environment=summary["environment"],
        groups=groups,
        rounds=rounds,
        replicas=replicas,
        counts=_counts(place, summary),
        received=(received[:, 0] * replicas).round(),
        rates=_spreads(summary["selection_rate"], groups),
        own_places=own,
        forgetful=all(parts.get(kind) in names for kind, names in FORGETFUL.items()),
    )


def _spreads(values: Mapping[str, Mapping[str, float | None]], groups: Sequence[str]) -> Tensor:
    """Means and standard deviations by group, (G, 2); NaN for null."""
    rows = [[values[group][part] for part in ("mean", "std")] for group in groups]
    known = [[float("nan") if value is None else value for value in row] for row in rows]
    return torch.tensor(known, dtype=torch.float64)


def _counts(place: Path, summary: Mapping[str, Any]) -> Tensor:
    """How often each group was picked in each round, read piece by piece."""
    rounds, replicas, groups = summary["rounds"], summary["replicas"], len(summary["groups"])
    total = torch.zeros(rounds * groups, dtype=torch.int64)
    for file in row_files(place, summary):
        for batch in file.iter_batches(batch_size=_ROWS, columns=["round", "group"]):
            when = torch.from_numpy(batch.column("round").to_numpy().copy())
            group = torch.from_numpy(batch.column("group").to_numpy().copy())
            if _outside(when, 1, rounds) or _outside(group, 0, groups - 1):
                raise FairbanditError(
                    f"{place / ROUNDS} holds rounds or groups that {SUMMARY} does not speak of"
                )
            total += torch.bincount((when - 1) * groups + group, minlength=len(total))
    counts = total.view(rounds, groups)
    if not bool((counts.sum(1) == replicas).all()):
        raise FairbanditError(
            f"{place / ROUNDS} holds {int(counts.sum()):,} rows, where {SUMMARY} speaks of "
            f"{rounds:,} rounds of {replicas:,} replicas: some are missing or there twice"
        )
    return counts


def _outside(values: Tensor, low: int, high: int) -> bool:
    return len(values) > 0 and not low <= int(values.min()) <= int(values.max()) <= high
