"""Runs that are compared with each other: those in one environment, pooled and labelled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.building import policy_labels
from fairbandit.errors import FairbanditError
from fairbandit.results.differences import differing, short_names, union
from fairbandit.results.pooling import NO_DIFFERENCE, PooledRuns, pool
from fairbandit.results.runs import PLACES, RewardDistribution, SavedRun, read_runs
from fairbandit.results.sampled import sampled_rewards

_LONGEST = 32  # letters of a setting's value in a label
_DIGITS = 7  # characters of a number that is not rounded


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
    def rewards(self) -> tuple[RewardDistribution | None, ...]:
        """The distribution of the true (noise-free) rewards of each group, in order of codes.

        They are those of the first run that stored any, since all runs have the same environment.
        An entry is None where none was stored: all are, if the environment has no truth.
        """
        known = (run.rewards for run in self.runs if any(one is not None for one in run.rewards))
        return next(known, (None,) * len(self.groups))

    @cached_property
    def sampled_rewards(self) -> tuple[RewardDistribution | None, ...]:
        """The distribution of the rewards in the round logs, which needs no truth."""
        return sampled_rewards(self.runs)

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
        kept = tuple(run for run in self.runs if run.policy in policies)
        if not kept:
            have = sorted({run.policy for run in self.runs})
            raise FairbanditError(
                f"no run in {self.name} is of {' or '.join(map(repr, policies))}; there are runs "
                f"of {', '.join(map(repr, have))}"
            )
        return self.among(kept)


def read_scenes(folders: Sequence[Path], over: Sequence[str] = ("seed",)) -> list[Scene]:
    """Reads the runs below some folders, one scene for each environment.

    Args:
        folders: where to look, at any depth.
        over: the keys of the settings over which runs are pooled.

    Raises:
        FairbanditError: a folder does not exist, a file is no summary, there is no run, or no run
            has a setting of such a key.
    """
    return scenes_of(read_runs(folders), over)


def scenes_of(runs: Sequence[SavedRun], over: Sequence[str] = ("seed",)) -> list[Scene]:
    """Arranges runs in scenes, as `read_scenes` does."""
    found: dict[str, list[PooledRuns]] = {}
    for run in pool(runs, over):
        found.setdefault(_environment(run.settings), []).append(run)
    firsts = [alike[0].settings for alike in found.values()]
    names = labels(firsts, "environment")
    scenes = [Scene(n, _labelled(alike)) for n, alike in zip(names, found.values(), strict=True)]
    return sorted(scenes, key=lambda scene: scene.name)


def policy_order(name: str) -> tuple[int, str]:
    """Returns a sort key by which the policies of `conf/policy/` come first, in their order."""
    named = _named_policies()
    return (named.index(name) if name in named else len(named), name)


@cache
def _named_policies() -> list[str]:
    return list(policy_labels())


def labels(settings: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """Names each of some policies or environments by what sets it apart.

    Args:
        settings: the settings of each.
        kind: `policy`, or `environment`, of which only its own parameters tell it apart.

    Returns:
        The name of each, with the settings in which those of that name differ. Settings that only
        say how or from where a run was played, such as its device, do not count.

    >>> labels([{"policy": "oful", "seed": 0}, {"policy": "oful", "seed": 1},
    ...         {"policy": "gmf", "seed": 0}], "policy")
    ['oful, seed=0', 'oful, seed=1', 'gmf']
    """
    named: dict[str, list[Mapping[str, Any]]] = {}
    for one in settings:
        named.setdefault(str(one[kind]), []).append(one)
    keys = {name: _telling(alike, kind) for name, alike in named.items()}
    full, brief = (
        [_label(str(one[kind]), one, keys[str(one[kind])], longest) for one in settings]
        for longest in (None, _LONGEST)
    )
    return brief if len(set(brief)) == len(set(full)) else full


def _differences(settings: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """The keys that may set two policies or environments apart, and do."""
    own = "environment." if kind == "environment" else ""
    keys = differing(settings)
    return [key for key in keys if key.startswith(own) and not key.startswith(NO_DIFFERENCE)]


def _telling(alike: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """The keys that labels of policies or environments of one name show.

    A key with one value wherever it is found, such as a parameter of a part that only some
    policies have, is left out unless no other setting tells the same.
    """
    keys = _differences(alike, kind)
    several = [key for key in keys if len({one[key] for one in alike if key in one}) > 1]
    fewer, all_told = ({tuple(one.get(k) for k in ks) for one in alike} for ks in (several, keys))
    return several if len(fewer) == len(all_told) else keys


def _label(name: str, settings: Mapping[str, Any], keys: Sequence[str], longest: int | None) -> str:
    """Joins a name and settings.

    With `longest`, numbers have four significant digits, and of a text of more letters the middle
    is cut.
    """
    said = [name]
    for key, short in short_names(keys).items():
        if key in settings:
            value = "null" if settings[key] is None else str(settings[key])
            if longest is not None and isinstance(settings[key], float) and len(value) > _DIGITS:
                value = f"{settings[key]:.4g}"
            if longest is not None and len(value) > longest:
                value = f"{value[: longest // 2]}…{value[-(longest // 2) :]}"
            said.append(f"{short}={value}")
    return ", ".join(said)


def _labelled(runs: Sequence[PooledRuns]) -> tuple[PooledRuns, ...]:
    """The runs of one environment with labels of their own.

    They are in the order of `policy_order`, those of one policy in the order of their settings.
    """
    made: dict[str, PooledRuns] = {}
    for run, label in zip(runs, labels([run.settings for run in runs], "policy"), strict=True):
        # the same command, twice
        own = f"{label}, {run.runs[0].folder}" if label in made else label
        made[own] = replace(run, label=own)
    keys = _differences([run.settings for run in runs], "policy")

    def order(run: PooledRuns) -> tuple[Any, ...]:
        values = [_value_order(run.settings.get(key)) for key in keys]
        return policy_order(run.policy), values

    return tuple(sorted(made.values(), key=order))


def _value_order(value: Any) -> tuple[int, float, str]:
    """A sort key of settings' values: None, then numbers, then texts."""
    if value is None or isinstance(value, int | float):
        return (value is not None, float(value or 0), "")
    return (2, 0.0, str(value))


def _environment(settings: Mapping[str, Any]) -> str:
    """All that tells environments apart, wherever their data lie."""
    own = {k: v for k, v in settings.items() if k.startswith("environment") and k not in PLACES}
    return json.dumps(own, sort_keys=True)
