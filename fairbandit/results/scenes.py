"""Runs that are compared with each other: those in one environment, told apart by labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.results.runs import RewardDistribution, SavedRun, read_runs

POLICIES = (
    "uniform",
    "oful",
    "greedy",
    "fair_greedy",
    "fair_greedy_oracle_cdf",
    "fair_greedy_oracle_rewards",
    "gmf",
    "optimal",
)
"""The paper's policies, from the least to the most informed."""

_PLACES = ("environment.root", "environment.cache", "environment.download")
_NO_DIFFERENCE = ("threads", "device", "versions.", *_PLACES)


@dataclass(frozen=True)
class Scene:
    """The runs in one environment, in the order in which figures and reports list them.

    Attributes:
        name: the environment's name, with what sets it apart from others of this name.
        runs: the runs, labelled.
    """

    name: str
    runs: tuple[SavedRun, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return self.runs[0].groups

    @property
    def candidates(self) -> float:
        """K, the mean number of candidates in a pool."""
        first = self.runs[0]
        return float(np.nansum(first.by_group("received")[0]) / first.summary["rounds"])

    @cached_property
    def rewards(self) -> tuple[RewardDistribution | None, ...]:
        """The distribution of the true (noise-free) rewards of each group, in order of codes.

        They are those of the first run that stored any, since all runs have the same environment.
        An entry is None where none was stored: all are, if the environment has no truth.
        """
        known = (run.rewards for run in self.runs if any(one is not None for one in run.rewards))
        return next(known, (None,) * len(self.groups))

    @property
    def metrics(self) -> list[str]:
        """The columns of all metrics of any run, the regrets first."""
        return union(run.metrics for run in self.runs)

    def only(self, policies: Sequence[str] | None) -> Scene:
        """Returns the same scene with the runs of some policies; None stands for all.

        Raises:
            FairbanditError: there is no run of any of them.
        """
        if policies is None:
            return self
        kept = tuple(run for run in self.runs if run.summary["policy"] in policies)
        if not kept:
            have = sorted({run.summary["policy"] for run in self.runs})
            raise FairbanditError(
                f"no run in {self.name} is of {' or '.join(map(repr, policies))}; there are runs "
                f"of {', '.join(map(repr, have))}"
            )
        return Scene(self.name, kept)


def read_scenes(folders: Sequence[Path]) -> list[Scene]:
    """Reads the runs below some folders, one scene for each environment.

    Args:
        folders: where to look, at any depth.

    Raises:
        FairbanditError: a folder does not exist, a file is no summary, or there is no run.
    """
    found: dict[str, list[SavedRun]] = {}
    for run in read_runs(folders):
        found.setdefault(_environment(run.settings), []).append(run)
    firsts = [runs[0].settings for runs in found.values()]
    names = labels(firsts, "environment")
    scenes = [Scene(n, _labelled(runs)) for n, runs in zip(names, found.values(), strict=True)]
    return sorted(scenes, key=lambda scene: scene.name)


def policy_order(name: str) -> tuple[int, str]:
    """Returns a sort key by which the paper's policies come first, in the order of `POLICIES`."""
    return (POLICIES.index(name) if name in POLICIES else len(POLICIES), name)


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys in which not all settings agree, in the order of the settings.

    >>> differing([{"seed": 0, "a": 1}, {"seed": 1, "a": 1, "b": 2}])
    ['seed', 'b']
    """
    columns = {key: [one.get(key) for one in settings] for key in union(settings)}
    # the type tells True from 1, which are equal in Python
    told = {key: {(isinstance(v, bool), v) for v in values} for key, values in columns.items()}
    return [key for key, values in told.items() if len(values) > 1]


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
    keys = {name: [k for k in differing(alike) if _tells(k, kind)] for name, alike in named.items()}
    return [_label(str(one[kind]), one, keys[str(one[kind])]) for one in settings]


def _tells(key: str, kind: str) -> bool:
    """Whether a setting may be a difference between two policies or environments."""
    own = kind != "environment" or key.startswith("environment.")
    return own and not key.startswith(_NO_DIFFERENCE)


def _label(name: str, settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    last = [key.rpartition(".")[2] for key in keys]
    said = [name]
    for key, short in zip(keys, last, strict=True):
        if settings.get(key) is not None:
            text = key if last.count(short) > 1 or short == "name" else short
            said.append(f"{text}={settings[key]}")
    return ", ".join(said)


def _labelled(runs: Sequence[SavedRun]) -> tuple[SavedRun, ...]:
    """The runs of one environment with labels of their own, in the paper's order of policies."""
    made: dict[str, SavedRun] = {}
    for run, label in zip(runs, labels([run.settings for run in runs], "policy"), strict=True):
        own = f"{label}, {run.folder}" if label in made else label  # the same command, twice
        made[own] = replace(run, label=own)
    return tuple(sorted(made.values(), key=lambda run: policy_order(run.summary["policy"])))


def _environment(settings: Mapping[str, Any]) -> str:
    """All that tells environments apart, wherever their data lie."""
    own = {k: v for k, v in settings.items() if k.startswith("environment") and k not in _PLACES}
    return json.dumps(own, sort_keys=True)


def union(rows: Iterable[Iterable[str]]) -> list[str]:
    """Merges rows of names; a name that only some rows have gets its place from the first of them.

    >>> union([["a", "d"], ["a", "b", "d"]])
    ['a', 'b', 'd']
    """
    order: list[str] = []
    known: set[str] = set()
    for row in map(list, rows):
        if known.issuperset(row):
            continue
        at = 0
        for name in row:
            if name not in known:
                order.insert(at, name)
                known.add(name)
            at = order.index(name) + 1
    return order
