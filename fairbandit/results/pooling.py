"""Runs that differ only in their seeds, pooled into one with all their replicas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairbandit.maths.moments import Floats, merged_moments, moments
from fairbandit.results.differences import differing
from fairbandit.results.runs import FOLDER, PLACES, SavedRun
from fairbandit.run.curves import Curve

Value = TypeVar("Value")

LEVEL = 0.95
"""The confidence level of all intervals."""

NO_DIFFERENCE = ("threads", "device", "versions.", *PLACES)
"""Prefixes of the keys that do not affect results, such as the device or the folder of the data."""


def interval(count: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Floats, Floats]:
    """Returns Student's confidence interval of the mean, at `LEVEL`.

    The interval is mean ± q·std/√n, where q is the (1 + LEVEL)/2 quantile of Student's t
    distribution with n − 1 degrees of freedom, and NaN for fewer than two values. It is exact for
    independent normal values; means over many rounds of independent replicas are nearly normal.

    >>> low, high = interval(3, 3.0, 7.0**0.5)
    >>> round(float(low), 2), round(float(high), 2)
    (-3.57, 9.57)
    """
    from scipy.special import stdtrit

    counts = np.asarray(count, np.float64)
    known = counts > 1
    quantile = stdtrit(np.where(known, counts - 1, 1.0), (1 + LEVEL) / 2)
    half = np.where(known, quantile * np.asarray(std) / np.sqrt(np.maximum(counts, 1)), np.nan)
    return np.asarray(mean) - half, np.asarray(mean) + half


@dataclass(frozen=True)
class PooledRuns:
    """One setting: runs that differ only in their seeds, with all their replicas pooled.

    Attributes:
        runs: the runs, at least one.
        each: whether this is a single run that keeps its seed.
        label: the name of the setting, unique among the settings that it is compared with.
    """

    runs: tuple[SavedRun, ...]
    each: bool = False
    label: str = ""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings in which the runs agree, without the seed unless `each`."""
        apart = set() if self.each else {"seed", *differing([run.settings for run in self.runs])}
        return {key: value for key, value in self.runs[0].settings.items() if key not in apart}

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return str(self.runs[0].summary["policy"])

    @property
    def knows_truth(self) -> bool:
        """Whether a part of the policy reads the ground truth."""
        return bool(self.runs[0].summary.get("knows_truth"))

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

    @cached_property
    def spreads(self) -> dict[str, dict[str, Any]]:
        """Every metric and every group's statistics, such as selection_rate_GROUP, by column.

        Each has `mean`, `std` and `n` over the replicas of all runs, and the interval of the mean
        from `low` to `high`, None where unknown; a metric also has the first run's `reduce` and
        `lower_is_better`.
        """
        return {
            column: {**spreads[0], **self._pooled(spreads)}
            for column, spreads in _in_all([run.spreads for run in self.runs]).items()
        }

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The metrics among the `spreads`."""
        columns = self.runs[0].summary["metrics"]
        return {column: spread for column, spread in self.spreads.items() if column in columns}

    def results(self) -> dict[str, Any]:
        """Returns every number by its column in tables, such as fair_regret_mean.

        With `each`, the `folder` of the run replaces the intervals.
        """
        parts = ("mean", "std") if self.each else ("mean", "std", "n", "low", "high")
        spreads = self.spreads.items()
        numbers = {f"{name}_{part}": spread[part] for name, spread in spreads for part in parts}
        numbers["seconds"] = self.seconds
        if self.each:
            return numbers | {FOLDER: self.runs[0].place}
        return {"runs": len(self.runs), **numbers}

    @property
    def seconds(self) -> float:
        """The total running time of the runs."""
        return float(sum(run.summary["seconds"] for run in self.runs))

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curve of every metric by its column, and `selection_rate/GROUP` for few groups.

        Raises:
            FairbanditError: a file is damaged.
        """
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
        # None becomes NaN
        mean, std = np.array([[s["mean"], s["std"]] for s in spreads], dtype=np.float64).T
        return mean, std

    def picks(self) -> NDArray[np.int64]:
        """Returns the number of replicas that picked each group in each round, (T, G)."""
        return np.sum([run.picks() for run in self.runs], axis=0)

    def _pooled(self, spreads: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
        counts = [
            spread.get("n", 0 if spread["mean"] is None else run.summary["replicas"])
            for spread, run in zip(spreads, self.runs, strict=True)
        ]
        means, stds = np.array([[s["mean"], s["std"]] for s in spreads], np.float64).T
        numbers = _numbers(*_pool_moments(counts, means, stds))
        return {key: None if np.isnan(value) else value for key, value in numbers.items()}


def _in_all(runs: Sequence[Mapping[str, Value]]) -> dict[str, list[Value]]:
    """Returns the names that all runs have, each with the list of its values by run."""
    first, *others = runs
    return {key: [run[key] for run in runs] for key in first if all(key in run for run in others)}


def _pool_moments(*moments: Sequence[Any]) -> Sequence[Any]:
    """Pools the count, mean and std of several samples; a single sample is returned unchanged."""
    return merged_moments(*moments) if len(moments[0]) > 1 else [part[0] for part in moments]


def pool(runs: Sequence[SavedRun], *, each: bool = False) -> list[PooledRuns]:
    """Pools runs that differ only in their seeds; settings are in the order of their first run.

    Settings that do not affect results, such as the device, may differ too. Runs with the same
    seed, as after a repeated command, are never pooled, since their replicas are the same. With
    `each`, every run is on its own.
    """
    if each:
        return [PooledRuns((run,), each=True) for run in runs]
    pools: dict[tuple[Any, ...], list[SavedRun]] = {}
    copies = Counter[tuple[str, int]]()
    for run in runs:
        shared, seed = _key(run.settings), run.summary["seed"]
        copies[shared, seed] += 1
        pools.setdefault((shared, run.groups, copies[shared, seed]), []).append(run)
    return [PooledRuns(tuple(alike)) for alike in pools.values()]


def _key(settings: Mapping[str, Any]) -> str:
    """Returns a text that runs share if they differ only in seeds and keys of `NO_DIFFERENCE`."""
    apart = ("seed", *NO_DIFFERENCE)
    return json.dumps({k: v for k, v in settings.items() if not k.startswith(apart)})


def paired_difference(run: PooledRuns, base: PooledRuns, column: str) -> dict[str, Any] | None:
    """Compares a metric after the last round with its value in a baseline, replica by replica.

    Returns:
        `mean`, `std` and `n` of the differences over the replicas that both settings have, and the
        interval of the mean, `low` to `high`; None if they share no replica.
    """
    ours, theirs = _by_replica(run, column), _by_replica(base, column)
    pairs = sorted(ours.keys() & theirs.keys())
    if not pairs:
        return None
    return _numbers(*moments([ours[pair] - theirs[pair] for pair in pairs]))


def _numbers(count: Any, mean: Any, std: Any) -> dict[str, Any]:
    low, high = map(float, interval(count, mean, std))
    return {"n": int(count), "mean": float(mean), "std": float(std), "low": low, "high": high}


def _by_replica(run: PooledRuns, column: str) -> dict[tuple[int, int], float]:
    """Returns a metric after the last round, by seed and replica."""
    return {
        (saved.summary["seed"], replica): value
        for saved in run.runs
        for replica, value in enumerate(saved.curves[column].final.tolist())
    }
