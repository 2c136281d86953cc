"""Runs that are compared with each other: those in one environment, pooled and labelled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.building import policy_labels
from fairbandit.errors import FairbanditError
from fairbandit.results.differences import differing, short_names, union
from fairbandit.results.pooling import NO_DIFFERENCE, PooledRuns, pool
from fairbandit.results.runs import PLACES, SavedRun, read_runs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Scene:
    """The runs in one environment, in the order in which figures and reports list them.

    Attributes:
        name: the environment's name, with what sets it apart from others of this name.
        runs: the runs, labelled.
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
        """The distribution of the true (noise-free) rewards of each group; None without a truth.

        It has the columns value, density and cdf, and is that of the first run that stored any,
        since all runs have the same environment.
        """
        stored = (run.rewards for pooled in self.runs for run in pooled.runs)
        known = (rewards for rewards in stored if any(one is not None for one in rewards))
        return next(known, (None,) * len(self.groups))

    @property
    def metrics(self) -> list[str]:
        """The columns of all metrics of any run, the regrets first."""
        return union(run.metrics for run in self.runs)

    @property
    def differences(self) -> list[str]:
        """The keys of the settings in which the runs differ, other than in how they were played."""
        return _differences([run.settings for run in self.runs], "policy")

    def among(self, runs: Sequence[PooledRuns]) -> Scene:
        """Returns the same scene with some of its runs, labelled by what sets these apart."""
        return Scene(self.name, _labelled(runs))

    def only(self, policies: Sequence[str] | None) -> Scene:
        """Returns the same scene with the runs of some policies; None stands for all.

        Raises:
            FairbanditError: there is no run of any of them.
        """
        if policies is None:
            return self
        kept = [run for run in self.runs if run.policy in policies]
        if not kept:
            have = ", ".join(sorted({repr(run.policy) for run in self.runs}))
            wanted = " or ".join(map(repr, policies))
            raise FairbanditError(f"no run in {self.name} is of {wanted}; there are runs of {have}")
        return self.among(kept)


def read_scenes(folders: Sequence[Path]) -> list[Scene]:
    """Reads the runs below some folders as `read_runs` does, one scene for each environment."""
    return scenes_of(read_runs(folders))


def scenes_of(runs: Sequence[SavedRun]) -> list[Scene]:
    """Pools runs, and arranges them in scenes, one for each environment."""
    found: dict[str, list[PooledRuns]] = {}
    for run in pool(runs):
        found.setdefault(_environment(run.settings), []).append(run)
    firsts = [alike[0].settings for alike in found.values()]
    names = labels(firsts, "environment")
    scenes = [Scene(n, _labelled(alike)) for n, alike in zip(names, found.values(), strict=True)]
    return sorted(scenes, key=lambda scene: scene.name)


def labels(settings: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """Names each of some policies or environments by the settings that distinguish it.

    Args:
        settings: the settings of each.
        kind: `policy`, or `environment`, which only its own parameters distinguish.

    Returns:
        The name of each, with the settings in which those of that name differ, but for how or from
        where a run was played. A key with one value wherever it is found, such as a parameter of a
        part that only some policies have, is left out if the other settings distinguish as many.

    >>> labels([{"policy": "oful", "seed": 0}, {"policy": "oful", "seed": 1},
    ...         {"policy": "gmf", "seed": 0}], "policy")
    ['oful, seed=0', 'oful, seed=1', 'gmf']
    """
    shown: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(one[kind] for one in settings):
        alike = [one for one in settings if one[kind] == name]
        keys = _differences(alike, kind)
        several = [key for key in keys if len({one[key] for one in alike if key in one}) > 1]
        by_several, by_all = ({tuple(map(one.get, ks)) for one in alike} for ks in (several, keys))
        shown[name] = short_names(several if len(by_several) == len(by_all) else keys)
    return [
        ", ".join([one[kind], *(f"{shown[one[kind]][key]}={_text(one[key])}" for key in keys)])
        for one in settings
        for keys in [[key for key in shown[one[kind]] if key in one]]
    ]


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def _differences(settings: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """The keys that may set two policies or environments apart, and do."""
    own = "environment." if kind == "environment" else ""
    keys = differing(settings)
    return [key for key in keys if key.startswith(own) and not key.startswith(NO_DIFFERENCE)]


def _labelled(runs: Sequence[PooledRuns]) -> tuple[PooledRuns, ...]:
    """The runs of one environment with labels of their own.

    The policies of `conf/policy/` come first, in their order; those of one policy are in the order
    of their settings: nothing, numbers, then texts.
    """
    made: dict[str, PooledRuns] = {}
    for run, label in zip(runs, labels([run.settings for run in runs], "policy"), strict=True):
        # the same command, twice
        own = f"{label}, {run.runs[0].folder}" if label in made else label
        made[own] = replace(run, label=own)
    named, keys = list(policy_labels()), _differences([run.settings for run in runs], "policy")

    def order(run: PooledRuns) -> tuple[Any, ...]:
        place = named.index(run.policy) if run.policy in named else len(named)
        return place, run.policy, [_order(run.settings.get(key)) for key in keys]

    return tuple(sorted(made.values(), key=order))


def _order(value: Any) -> tuple[int, float, str]:
    if value is None or isinstance(value, int | float):
        return value is not None, float(value or 0), ""
    return 2, 0.0, str(value)


def _environment(settings: Mapping[str, Any]) -> str:
    """All settings that distinguish environments, but for the places of their data."""
    own = {k: v for k, v in settings.items() if k.startswith("environment") and k not in PLACES}
    return json.dumps(own, sort_keys=True)
