"""What an audit needs of a saved run: how often each group was received and picked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit import registry
from fairbandit.building import preset, presets
from fairbandit.errors import FairbanditError
from fairbandit.maths.moments import Floats
from fairbandit.results import PooledRuns, read_scenes


@dataclass(frozen=True)
class Picks:
    """The decisions of one run, or of runs that differ only in their seeds.

    Attributes:
        label: what reports call the run.
        environment: its environment's name, with what sets it apart from others of this name.
        groups: the groups' names.
        counts: how many of the B replicas picked each group in each round, (T, G) int64.
        received: candidates of each group in all rounds and replicas, (G,).
        own_places: whether each pool held one candidate of each group, so that a place is a group.
        reads_past: whether a pick depends on earlier rounds; None if a part is not registered.
    """

    label: str
    environment: str
    groups: tuple[str, ...]
    counts: NDArray[np.int64]
    received: Floats
    own_places: bool
    reads_past: bool | None

    @property
    def replicas(self) -> int:
        """B."""
        return int(self.counts[0].sum())

    @property
    def places(self) -> float:
        """K, the mean number of candidates in a pool: not whole where there are empty places."""
        return float(self.received.sum() / self.counts.sum())


def read_picks(folders: Sequence[Path]) -> list[Picks]:
    """Reads the decisions of every finished run below some folders, by environment.

    A label names the parts that are not the named policy's, and the environment if two share it.

    Raises:
        FairbanditError: a folder does not exist, there is no run, or rows are missing.
    """
    runs = [(scene.name, run) for scene in read_scenes(folders) for run in scene.runs]
    shared = Counter(run.label for _, run in runs)
    return [_picks(run, environment, shared[run.label] > 1) for environment, run in runs]


def _picks(run: PooledRuns, environment: str, shared: bool) -> Picks:
    parts = _parts(run.runs[0].summary["config"]["policy"])
    received, spread = run.by_group("received")
    named = _parts(preset(run.policy)) if run.policy in presets() else parts
    exchanged = [f"{kind}={name}" for kind, name in parts.items() if name != named[kind]]
    added = [part for part in exchanged if part not in run.label]
    try:
        reads_past = any(registry.lookup(kind, name).reads_past() for kind, name in parts.items())
    except FairbanditError:
        reads_past = None  # a plugin that is not loaded
    return Picks(
        label=", ".join([run.label, *added, *([environment] if shared else [])]),
        environment=environment,
        groups=run.groups,
        counts=run.picks(),
        received=(received * run.replicas).round(),
        # one candidate of each group in every pool: the paper's first setting
        own_places=bool((received == run.rounds).all()) and not bool((spread > 0).any()),
        reads_past=reads_past,
    )


def _parts(policy: Mapping[str, Any]) -> dict[str, str]:
    parts = {kind: policy.get(kind) for kind in registry.PART_KINDS}
    return {k: str(p.get("name") if isinstance(p, Mapping) else p) for k, p in parts.items()}
