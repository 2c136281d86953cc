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

from fairbandit.maths.moments import Floats, merged, moments
from fairbandit.results.differences import differing
from fairbandit.results.runs import FOLDER, PLACES, SavedRun
from fairbandit.run.curves import Curve

Found = TypeVar("Found")

LEVEL = 0.95
"""The confidence level of all intervals."""

NO_DIFFERENCE = ("threads", "device", "versions.", *PLACES)
"""Settings that only say how or from where a run was played, by the beginnings of their keys."""


def interval(count: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Floats, Floats]:
    """Returns Student's confidence interval of the mean, at `LEVEL`.

    mean ± q·std/√n, where q is the (1 + LEVEL)/2 quantile of Student's t distribution with n − 1
    degrees of freedom; NaN for fewer than two values. It is exact for values that are independent
    and normal, as the means over many rounds of independent replicas nearly are.

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
    """Runs that are compared with others as one, since they differ only in their seeds.

    Attributes:
        runs: the runs, at least one.
        each: whether this is a single run that keeps its seed.
        label: what they are called among those that they are compared with.
    """

    runs: tuple[SavedRun, ...]
    each: bool = False
    label: str = ""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings in which the runs agree; of a single run, all."""
        apart = set() if self.each else {"seed", *differing([run.settings for run in self.runs])}
        return {key: value for key, value in self.runs[0].settings.items() if key not in apart}

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return str(self.runs[0].summary["policy"])

    @property
    def knows_truth(self) -> bool:
        """Whether a part of the policy reads what only the environment knows."""
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
        """Every metric and every group's quantities, such as selection_rate_GROUP, by column.

        Each has `mean`, `std` and `n` over the replicas of all runs, and the interval of the mean
        from `low` to `high`, None where unknown; a metric has the first run's `reduce` and
        `lower_is_better`.
        """
        return {
            column: {**spreads[0], **self._pooled(spreads)}
            for column, spreads in _in_all([run.spreads for run in self.runs]).items()
        }

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The metrics among the `spreads`."""
        own = self.runs[0].summary["metrics"]
        return {column: one for column, one in self.spreads.items() if column in own}

    def results(self) -> dict[str, Any]:
        """Returns every number by its column in tables, such as fair_regret_mean.

        A single run has no intervals, and its `folder`.
        """
        parts = ("mean", "std") if self.each else ("mean", "std", "n", "low", "high")
        spreads = self.spreads.items()
        found = {f"{name}_{part}": one[part] for name, one in spreads for part in parts}
        found["seconds"] = self.seconds
        if self.each:
            return found | {FOLDER: self.runs[0].place}
        return {"runs": len(self.runs), **found}

    @property
    def seconds(self) -> float:
        """The time that all runs took together."""
        return float(sum(run.summary["seconds"] for run in self.runs))

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """Every metric by its column, and `selection_rate/GROUP` where groups are few.

        Raises:
            FairbanditError: a file is damaged.
        """
        found = {}
        for name, curves in _in_all([run.curves for run in self.runs]).items():
            parts = ([getattr(one, part) for one in curves] for part in ("count", "mean", "std"))
            finals = np.concatenate([one.final for one in curves])
            count, mean, std = _together(*parts)
            found[name] = Curve(curves[0].rounds, count, mean, std, finals)
        return found

    def by_group(self, quantity: str) -> tuple[Floats, Floats]:
        """Returns mean and std of `selection_rate`, `selected` or `received`, (G,) each.

        NaN stands for what is not known, as the rate of a group that was never received.
        """
        found = [self.spreads[f"{quantity}_{group}"] for group in self.groups]
        # None becomes NaN
        mean, std = np.array([[one["mean"], one["std"]] for one in found], dtype=np.float64).T
        return mean, std

    def picks(self) -> NDArray[np.int64]:
        """Counts in how many replicas each group was picked in each round, (T, G)."""
        return np.sum([run.picks() for run in self.runs], axis=0)

    def _pooled(self, spreads: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
        counts = [
            one.get("n", 0 if one["mean"] is None else run.summary["replicas"])
            for one, run in zip(spreads, self.runs, strict=True)
        ]
        means, stds = np.array([[one["mean"], one["std"]] for one in spreads], np.float64).T
        numbers = _numbers(*_together(counts, means, stds))
        return {key: None if np.isnan(value) else value for key, value in numbers.items()}


def _in_all(runs: Sequence[Mapping[str, Found]]) -> dict[str, list[Found]]:
    """What all runs have, by name, with one entry for each run."""
    first, *others = runs
    return {key: [one[key] for one in runs] for key in first if all(key in one for one in others)}


def _together(*moments: Sequence[Any]) -> Sequence[Any]:
    """Count, mean and std of several samples; those of a single one stay digit by digit."""
    return merged(*moments) if len(moments[0]) > 1 else [part[0] for part in moments]


def pool(runs: Sequence[SavedRun], *, each: bool = False) -> list[PooledRuns]:
    """Pools runs that differ only in their seeds, in the order of the first of each.

    How and from where a run was played, such as its device, makes no difference. Runs of one seed,
    as of a command that was given twice, are never pooled, since their replicas are the same. With
    `each`, every run stands alone.
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
    """A text that is the same for runs that differ in seeds and keys of `NO_DIFFERENCE` alone."""
    apart = ("seed", *NO_DIFFERENCE)
    return json.dumps({k: v for k, v in settings.items() if not k.startswith(apart)})


def paired_difference(run: PooledRuns, base: PooledRuns, column: str) -> dict[str, Any] | None:
    """Returns how far a metric after the last round is from that of a baseline, by replicas.

    Returns:
        `mean`, `std` and `n` of the differences over the replicas that both have, and the interval
        of the mean, `low` to `high`; None if they have no replica together.
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
        (one.summary["seed"], replica): value
        for one in run.runs
        for replica, value in enumerate(one.curves[column].final.tolist())
    }
