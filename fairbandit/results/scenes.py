"""Scenes: the runs in one environment, pooled and labelled, which are compared with each other."""

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
        name: the environment's name, with the settings that distinguish it from others.
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
        """The distribution of the true (noise-free) rewards of each group; None where not known.

        It has the columns value, density and cdf, and comes from the first run that stored it,
        since all runs have the same environment.
        """
        stored = (run.rewards for pooled in self.runs for run in pooled.runs)
        known = (rewards for rewards in stored if any(group is not None for group in rewards))
        return next(known, (None,) * len(self.groups))

    @property
    def metrics(self) -> list[str]:
        """The columns of the metrics of all runs, the regrets first."""
        return union(run.metrics for run in self.runs)

    @property
    def differences(self) -> list[str]:
        """The keys in which the runs differ, except keys that do not affect results."""
        return _differences([run.settings for run in self.runs], "policy")

    def among(self, runs: Sequence[PooledRuns]) -> Scene:
        """Returns the scene with only some of its runs, labelled by their differences."""
        return Scene(self.name, _labelled(runs))

    def only(self, policies: Sequence[str] | None) -> Scene:
        """Returns the scene with only the runs of some policies; None selects all.

        Raises:
            FairbanditError: none of the policies has a run.
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
    """Reads the runs below some folders, and returns one scene for each environment."""
    return scenes_of(read_runs(folders))


def scenes_of(runs: Sequence[SavedRun]) -> list[Scene]:
    """Pools runs, and returns one scene for each environment."""
    by_environment: dict[str, list[PooledRuns]] = {}
    for run in pool(runs):
        by_environment.setdefault(_environment(run.settings), []).append(run)
    groups = list(by_environment.values())
    names = labels([group[0].settings for group in groups], "environment")
    scenes = [Scene(n, _labelled(group)) for n, group in zip(names, groups, strict=True)]
    return sorted(scenes, key=lambda scene: scene.name)


def labels(settings: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """Labels policies or environments by the settings that distinguish them.

    Args:
        settings: the settings of each run.
        kind: `policy`, or `environment`, which is distinguished by its own parameters only.

    Returns:
        For each, its name and the settings in which runs of that name differ, except settings that
        do not affect results. A key with the same value in all runs that have it, such as a
        parameter of a part of some policies, is left out if the other keys distinguish as many.

    >>> labels([{"policy": "oful", "seed": 0}, {"policy": "oful", "seed": 1},
    ...         {"policy": "gmf", "seed": 0}], "policy")
    ['oful, seed=0', 'oful, seed=1', 'gmf']
    """
    shown: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(run[kind] for run in settings):
        alike = [run for run in settings if run[kind] == name]
        keys = _differences(alike, kind)
        several = [key for key in keys if len({run[key] for run in alike if key in run}) > 1]
        by_several, by_all = ({tuple(map(run.get, ks)) for run in alike} for ks in (several, keys))
        shown[name] = short_names(several if len(by_several) == len(by_all) else keys)
    return [
        ", ".join([run[kind], *(f"{shown[run[kind]][k]}={_value_text(run[k])}" for k in keys)])
        for run in settings
        for keys in [[key for key in shown[run[kind]] if key in run]]
    ]


def _value_text(value: Any) -> str:
    return "null" if value is None else str(value)


def _differences(settings: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """Returns the differing keys that affect results, for environments only their parameters."""
    prefix = "environment." if kind == "environment" else ""
    keys = differing(settings)
    return [key for key in keys if key.startswith(prefix) and not key.startswith(NO_DIFFERENCE)]


def _labelled(runs: Sequence[PooledRuns]) -> tuple[PooledRuns, ...]:
    """Returns the runs of one environment, sorted, each with a unique label.

    The policies of `conf/policy/` come first, in their order. Runs of one policy are sorted by
    their settings: missing values, numbers, then texts.
    """
    labelled: dict[str, PooledRuns] = {}
    for run, label in zip(runs, labels([run.settings for run in runs], "policy"), strict=True):
        # a repeated command makes runs with the same label
        unique = f"{label}, {run.runs[0].folder}" if label in labelled else label
        labelled[unique] = replace(run, label=unique)
    named, keys = list(policy_labels()), _differences([run.settings for run in runs], "policy")

    def order(run: PooledRuns) -> tuple[Any, ...]:
        place = named.index(run.policy) if run.policy in named else len(named)
        return place, run.policy, [_order(run.settings.get(key)) for key in keys]

    return tuple(sorted(labelled.values(), key=order))


def _order(value: Any) -> tuple[int, float, str]:
    if value is None or isinstance(value, int | float):
        return value is not None, float(value or 0), ""
    return 2, 0.0, str(value)


def _environment(settings: Mapping[str, Any]) -> str:
    """Returns all settings of an environment as one text, except the places of its data."""
    kept = {k: v for k, v in settings.items() if k.startswith("environment") and k not in PLACES}
    return json.dumps(kept, sort_keys=True)
