"""The pooled runs of each environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.files.files import natural_order
from fairbandit.policy.build import named_policies
from fairbandit.runs.naming import chosen, union
from fairbandit.runs.pooling import PooledRuns, pool
from fairbandit.runs.saved import Run, read_runs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Scene:
    """The pooled runs in one environment, in the order in which figures and reports list them.

    Attributes:
        name: the environment's name, with the settings that distinguish it from others.
        runs: the pooled runs.
    """

    name: str
    runs: tuple[PooledRuns, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return self.runs[0].groups

    @property
    def candidates(self) -> float:
        """K, the mean number of candidates in a pool."""
        first = self.runs[0]
        return float(np.nansum(first.by_group("received")[0]) / first.rounds)

    @cached_property
    def rewards(self) -> tuple[pd.DataFrame | None, ...]:
        """The true rewards of each group, from the first run that stored them; None if not known.

        They have the columns value, density and cdf.
        """
        stored = (run.rewards for pooled in self.runs for run in pooled.runs)
        known = (rewards for rewards in stored if any(group is not None for group in rewards))
        return next(known, (None,) * len(self.groups))

    @property
    def reward(self) -> str | None:
        """The reward's column; None if not all runs have one."""
        runs = (run for pooled in self.runs for run in pooled.runs)
        names = [run.summary.get("unit", {}).get("name") for run in runs]
        return names[0] if all(names) else None

    @property
    def metrics(self) -> list[str]:
        """The columns of the metrics of all runs, the regrets first."""
        return union(run.metrics for run in self.runs)

    def only(self, policies: Sequence[str] | None) -> Scene:
        """Returns the scene with only the runs of some policies; None selects all.

        Raises:
            FairbanditError: none of the policies has a run.
        """
        where = {} if policies is None else {"policy": policies}
        return replace(self, runs=tuple(chosen(self.runs, where)))


def read_scenes(folders: Sequence[Path]) -> list[Scene]:
    """Reads the runs below some folders, and returns one scene for each environment."""
    return scenes_of(read_runs(folders))


def scenes_of(runs: Sequence[Run]) -> list[Scene]:
    """Pools runs, and returns one scene for each environment.

    Named policies come first, in their order. Runs of one policy are sorted by their settings.
    """
    places = {name: place for place, name in enumerate(named_policies())}

    def order(run: PooledRuns) -> tuple[Any, ...]:
        place = places.get(run.policy, len(places))
        return run.environment, place, run.policy, natural_order(run.label, decimals=True)

    scenes: dict[str, list[PooledRuns]] = {}
    for run in sorted(pool(runs), key=order):
        scenes.setdefault(run.environment, []).append(run)
    return [Scene(name, tuple(members)) for name, members in scenes.items()]
