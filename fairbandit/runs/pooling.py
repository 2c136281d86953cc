"""Runs that differ only in their seeds, pooled into one with all their replicas, by environment."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.policy.build import policy_label
from fairbandit.runs import by_group, naming
from fairbandit.runs.curves import RATE, Curve
from fairbandit.runs.intervals import SHARE, Span, share_ends
from fairbandit.runs.moments import CONFIDENCE, Floats, interval, merged_moments, moments
from fairbandit.runs.naming import OWN, Setting, differing, joined
from fairbandit.runs.reading import read_picks, read_trajectories
from fairbandit.runs.saved import FOLDER, SavedRun
from fairbandit.runs.settings import COST
from fairbandit.runs.summary import finite


@dataclass(frozen=True)
class PooledRuns:
    """One setting: runs that differ only in their seeds, with all their replicas pooled.

    Attributes:
        runs: the runs, at least one.
        each: whether this is a single run that keeps its seed.
        copy: whether earlier runs have the same settings and seeds, but other results.
        varied: the settings that tell this one from others; see `naming.varied`.
    """

    runs: tuple[SavedRun, ...]
    each: bool = False
    copy: bool = False
    varied: tuple[Setting, ...] = ()

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings in which the runs agree, without the seed unless `each`.

        A copy has the folder of its first run, too.
        """
        apart = set() if self.each else {"seed", *differing([run.settings for run in self.runs])}
        agreed = {key: value for key, value in self.runs[0].settings.items() if key not in apart}
        return agreed | ({FOLDER: self.runs[0].place} if self.copy and not self.each else {})

    @cached_property
    def label(self) -> str:
        """The name of the setting, unique in its environment."""
        return joined(policy_label(self.policy), self.others)

    @property
    def others(self) -> list[Setting]:
        """The settings in `varied` that do not belong to the environment."""
        return [one for one in self.varied if not one.key.startswith(OWN)]

    @property
    def environment(self) -> str:
        """The name of the environment, unique among the environments that were read."""
        own = [one for one in self.varied if one.key.startswith(OWN)]
        return joined(str(self.runs[0].summary["environment"]), own)

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return str(self.runs[0].summary["policy"])

    @property
    def knows_truth(self) -> bool:
        """Whether a part of the policy reads the ground truth."""
        return bool(self.runs[0].summary.get("knows_truth"))

    @property
    def group_feature(self) -> bool | None:
        """Whether the features hold the group; None if that is not known."""
        known: bool | None = self.runs[0].summary.get("group_feature")
        return known

    @property
    def rounds(self) -> int:
        """T."""
        return int(self.runs[0].summary["rounds"])

    @property
    def replicas(self) -> int:
        """The number of replicas of all runs together."""
        return sum(run.summary["replicas"] for run in self.runs)

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return self.runs[0].groups

    @property
    def seconds(self) -> float:
        """The total running time of the runs."""
        return float(sum(run.summary["seconds"] for run in self.runs))

    @cached_property
    def spreads(self) -> dict[str, dict[str, Any]]:
        """Every metric and every group's statistics, such as selection_rate_GROUP, by column.

        Each has `mean`, `std` and `n` over the replicas of all runs, and the interval of the mean
        from `low` to `high`, None where unknown; a metric also has the first run's `reduce` and
        `lower_is_better`.
        """
        spreads = _pooled([run.spreads for run in self.runs])
        for group in self.groups:
            rate = spreads[f"selection_rate_{group}"]
            rate |= finite(dict(zip(("low", "high"), rate_ends(spreads, group), strict=True)))
        return spreads

    @cached_property
    def of_groups(self) -> dict[str, dict[str, Any]]:
        """The same of each group's picks, such as `reward:GROUP`, from the round logs."""
        parts, spreads = ("n", "mean", "std"), list[dict[str, Any]]()
        for run in self.runs:
            known = {column: moments(own) for column, own in run.of_groups.items()}
            spreads.append({k: dict(zip(parts, own, strict=True)) for k, own in known.items()})
        pooled = _pooled(spreads)
        for column, spread in pooled.items():
            if column.startswith(("share:", "rank:")) and spread["low"] is not None:
                spread["low"], spread["high"] = max(spread["low"], 0.0), min(spread["high"], 1.0)
        return pooled

    @property
    def columns(self) -> list[str]:
        """The columns of `finals`: all of `spreads`, but for candidates, and of `of_groups`."""
        names = by_group.measures(*(run.summary for run in self.runs))
        measures = [f"{name}:{group}" for name in names for group in self.groups]
        return [*(name for name in self.spreads if not name.startswith("received_")), *measures]

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The metrics among the `spreads`."""
        columns = self.runs[0].summary["metrics"]
        return {column: spread for column, spread in self.spreads.items() if column in columns}

    def results(
        self, *, groups: bool = False, columns: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Returns every number by its column in tables, such as fair_regret_mean.

        With `each`, the `folder` of the run replaces the intervals; `groups` adds `of_groups`, and
        `columns` chooses among both.
        """
        parts = ("mean", "std") if self.each else ("mean", "std", "n", "low", "high")
        spreads = self.spreads | (self.of_groups if groups else {})
        if columns is not None:
            chosen = {name for name in spreads if {name, name.partition(":")[0]} & {*columns}}
            spreads = {name: spread for name, spread in spreads.items() if name in chosen}
        numbers = {f"{k}_{part}": spread[part] for k, spread in spreads.items() for part in parts}
        if self.each:
            return numbers | {"seconds": self.seconds, FOLDER: self.runs[0].place}
        return {"runs": len(self.runs), **numbers, "seconds": self.seconds}

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curve of every metric by its column, and `selection_rate/GROUP` for few groups."""
        pooled = {}
        for name, curves in _in_all([run.curves for run in self.runs]).items():
            parts = ([getattr(c, part) for c in curves] for part in ("count", "mean", "std"))
            finals = np.concatenate([curve.final for curve in curves])
            count, mean, std = _pool_moments(*parts)
            pooled[name] = Curve(curves[0].rounds, count, mean, std, finals)
        return pooled

    def by_group(self, quantity: str) -> tuple[Floats, Floats]:
        """Returns mean and std of `selection_rate`, `selected` or `received`, (G,) each.

        Unknown values are NaN, such as the rate of a group that was never received.
        """
        spreads = [self.spreads[f"{quantity}_{group}"] for group in self.groups]
        mean, std = np.array([[s["mean"], s["std"]] for s in spreads], dtype=np.float64).T
        return mean, std

    def trajectories(self, metric: str) -> Floats:
        """Returns a metric in each replica, at the rounds of its curve, (B, R)."""
        rounds = self.curves[metric].rounds
        read = [read_trajectories(r.folder, r.summary, metric, rounds) for r in self.runs]
        return np.concatenate(read)

    def finals(self, column: str) -> Floats:
        """Returns one of `columns` in each replica, (B,).

        In the rates of more than `MAX_GROUPS` groups, received candidates are their mean.
        """
        if column == COST:
            ends = [run.curves["standard_regret"].final * (run.cost or 0) for run in self.runs]
            return np.concatenate(ends)
        rates = {f"selection_rate_{group}": f"{RATE}/{group}" for group in self.groups}
        curve = rates.get(column, column)
        if curve in self.curves:
            return self.curves[curve].final
        for code, group in enumerate(self.groups):
            if column in (f"selected_{group}", f"selection_rate_{group}"):
                counts = [run.picks[:, code] for run in self.runs]
                share = 1 if column not in rates else self.spreads[f"received_{group}"]["mean"]
                return np.concatenate(counts) / share
        return np.concatenate([run.of_groups[column] for run in self.runs])

    def picks(self) -> NDArray[np.int64]:
        """Returns the number of replicas that picked each group in each round, (T, G)."""
        return np.sum([read_picks(run.folder, run.summary) for run in self.runs], axis=0)


def pool(runs: Sequence[SavedRun], *, each: bool = False) -> list[PooledRuns]:
    """Pools runs that differ only in their seeds; settings are in the order of their first run.

    Settings that do not affect results, such as the device, may differ too. Runs with the same
    seed, such as one with more replicas, are never pooled, since they share replicas. With `each`,
    every run is on its own.
    """
    pools: dict[tuple[Any, ...], list[SavedRun]] = {}
    copies = Counter[tuple[str, int]]()
    apart = ("seed", *naming.NO_DIFFERENCE)
    for at, run in enumerate(runs):
        kept = {key: v for key, v in run.settings.items() if not key.startswith(apart)}
        shared, seed = json.dumps(kept), run.summary["seed"]
        copies[shared, seed] += 1
        own = at if each else (shared, run.groups)
        pools.setdefault((copies[shared, seed], own), []).append(run)
    pooled = [PooledRuns(tuple(alike), each, key[0] > 1) for key, alike in pools.items()]
    found = naming.varied([setting.settings for setting in pooled]) if pooled else []
    return [replace(setting, varied=own) for setting, own in zip(pooled, found, strict=True)]


def paired_difference(run: PooledRuns, base: PooledRuns, column: str) -> dict[str, Any]:
    """Compares one of `columns` after the last round with a baseline, replica by replica.

    Returns:
        `mean`, `std` and `n` of the differences over the replicas that both settings have, and the
        interval of the mean, `low` to `high`; NaN for too few.
    """
    ours, theirs = (
        {
            (saved.summary["seed"], replica): value
            for saved in setting.runs
            for replica, value in enumerate(PooledRuns((saved,)).finals(column).tolist())
        }
        for setting in (run, base)
    )
    pairs = sorted(ours.keys() & theirs.keys())
    return _numbers(*moments([ours[at] - theirs[at] for at in pairs]))


def rate_ends(spreads: Mapping[str, Any], group: str, confidence: float = CONFIDENCE) -> Span:
    """Returns the interval of a group's mean selection rate; NaN for fewer than two replicas.

    See `share_ends`. An event is unseen by the candidates of all replicas. If all replicas have the
    same rate, it is unseen by replicas: a learner may always pick a group in some, and never in
    others.
    """
    rate, received = spreads[f"selection_rate_{group}"], spreads[f"received_{group}"]
    mean, std, n = rate["mean"], rate["std"], rate["n"]
    if std is None:
        return math.nan, math.nan
    units = n * received["mean"] if std else n
    return share_ends(mean, std**2 / n, n - 1, units, SHARE, confidence)


def _pooled(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Pools the spreads that all runs have, by column."""
    pooled = {}
    for column, spreads in _in_all(runs).items():
        parts = ([spread[part] for spread in spreads] for part in ("n", "mean", "std"))
        numbers = _numbers(*_pool_moments(*(np.array(part, np.float64) for part in parts)))
        pooled[column] = {**spreads[0], **finite(numbers)}
    return pooled


def _in_all(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the names that all runs have, each with the list of its values by run."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: [run[name] for run in runs] for name in names}


def _pool_moments(*moments: Any) -> Sequence[Any]:
    """Pools the count, mean and std of several samples; a single sample is returned unchanged."""
    return merged_moments(*moments) if len(moments[0]) > 1 else [part[0] for part in moments]


def _numbers(count: Any, mean: Any, std: Any) -> dict[str, Any]:
    low, high = map(float, interval(count, mean, std))
    return {"n": int(count), "mean": float(mean), "std": float(std), "low": low, "high": high}
