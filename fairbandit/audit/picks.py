"""What an audit needs of a saved run: how often each group was received and picked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fairbandit.results import PooledRuns, read_scenes

FORGETFUL = {"estimator": ("oracle", "zero"), "rank": ("oracle_cdf", "identity")}
"""Parts with which a round's decision depends on nothing but its own pool."""


@dataclass(frozen=True)
class Picks:
    """The decisions of one run, or of runs that differ only in their seeds.

    Attributes:
        label: what reports call the run.
        policy: the name of its policy.
        environment: its environment's name, with what sets it apart from others of this name.
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
    """Reads the decisions of every finished run below some folders.

    Args:
        folders: where to look, at any depth.

    Returns:
        The runs by environment and in the paper's order of policies. A label that two
        environments share is followed by the environment.

    Raises:
        FairbanditError: a folder does not exist, there is no run, or rows are missing.
    """
    runs = [(scene.name, run) for scene in read_scenes(folders) for run in scene.runs]
    shared = Counter(run.label for _, run in runs)
    return [_picks(run, environment, shared[run.label] > 1) for environment, run in runs]


def _picks(run: PooledRuns, environment: str, shared: bool) -> Picks:
    policy, rounds = run.runs[0].summary["config"]["policy"], run.rounds
    received, spread = (torch.from_numpy(part) for part in run.by_group("received"))
    parts = {kind: part.get("name") for kind, part in policy.items() if isinstance(part, Mapping)}
    # one candidate of each group in every pool: the paper's first setting
    own = bool((received == rounds).all()) and not bool((spread > 0).any())
    return Picks(
        label=f"{run.label}, {environment}" if shared else run.label,
        policy=run.policy,
        environment=environment,
        groups=run.groups,
        rounds=rounds,
        replicas=run.replicas,
        counts=run.picks(),
        received=(received * run.replicas).round(),
        rates=torch.stack([torch.from_numpy(p) for p in run.by_group("selection_rate")], 1),
        own_places=own,
        forgetful=all(parts.get(kind) in names for kind, names in FORGETFUL.items()),
    )
