"""Runs that differ only in their seeds, pooled into one with all their replicas, by environment.

All numbers are groupings of one tidy table of finals. A difference from a baseline is such a table,
too: its values are subtracted replica by replica.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.policy.build import policy_label
from fairbandit.runs import naming
from fairbandit.runs.intervals import SHARE, Span, share_ends
from fairbandit.runs.moments import CONFIDENCE, Floats, interval
from fairbandit.runs.naming import Setting, chosen, differing, joined, of_world
from fairbandit.runs.record import RATE, Curve, Key
from fairbandit.runs.saved import Run
from fairbandit.runs.settings import BY_GROUP, COST
from fairbandit.runs.summary import finite

if TYPE_CHECKING:
    import pandas as pd

PAIR = ["seed", "replica", "measure", "group"]
"""The columns that name a value of one setting."""


def column_of(measure: str, group: Any = None) -> str:
    """Returns the name of a measure in tables: `fair_regret`, or `rank:GROUP` of a group."""
    return measure if group is None or group != group else f"{measure}:{group}"


def spreads(
    table: pd.DataFrame, by: Sequence[str] = (), *, differences: bool = False
) -> pd.DataFrame:
    """Pools the values of each measure and group, separately for the values of the columns `by`.

    Returns:
        `by`, `measure`, `group`, the number `n` of known values, `mean`, `std` (ddof 1), and the
        95 % interval of the mean, `low` to `high`. It is Student's, and NaN where all values are
        equal. Unless the values are differences, it is within 0 and 1 for shares and ranks, and
        for selection rates at the end of a run it is `rate_ends`.
    """
    keys = [*by, *(key for key in ("measure", "group", "round") if key in table)]
    values = table.groupby(keys, dropna=False, observed=True, sort=False)["value"]
    pooled = values.agg(n="count", mean="mean", std="std").reset_index()
    pooled["low"], pooled["high"] = interval(pooled["n"], pooled["mean"], pooled["std"])
    if differences:
        return pooled
    shares = pooled["measure"].isin(("share", "rank", RATE)) & pooled["group"].notna()
    ends = pooled.loc[shares, ["low", "high"]]
    pooled.loc[shares, ["low", "high"]] = ends.clip(0.0, 1.0)
    if "round" not in table:
        of_rates, on = pooled["measure"] == RATE, [*by, "group"]
        received = pooled.loc[pooled["measure"] == "received", [*on, "mean"]]
        rates = pooled[of_rates].merge(received, on=on, how="left", suffixes=("", "_received"))
        parts = (rates[part] for part in ("mean", "std", "n", "mean_received"))
        spans = [rate_ends(*row) for row in zip(*parts, strict=True)]
        pooled.loc[of_rates, ["low", "high"]] = np.array(spans).reshape(-1, 2)
    return pooled


def rate_ends(
    mean: float, std: float, n: float, received: float, confidence: float = CONFIDENCE
) -> Span:
    """Returns the interval of a group's mean selection rate; NaN for fewer than two replicas.

    See `share_ends`. An event is unseen by the candidates of all replicas. If all replicas have the
    same rate, it is unseen by replicas: a learner may always pick a group in some, and never in
    others.
    """
    if math.isnan(std):
        return math.nan, math.nan
    units = n * received if std else n
    return share_ends(mean, std**2 / n, n - 1, units, SHARE, confidence)


@dataclass(frozen=True)
class PooledRuns:
    """One setting: runs that differ only in their seeds, with all their replicas pooled.

    Attributes:
        runs: the runs, at least one.
        each: whether this is a single run that keeps its seed.
        varied: the settings that tell this one from others; see `naming.varied`.
        base: the baseline that is subtracted from all results, if any.
    """

    runs: tuple[Run, ...]
    each: bool = False
    varied: tuple[Setting, ...] = ()
    base: PooledRuns | None = None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings in which the runs agree, without the seed unless `each`."""
        apart = set() if self.each else {"seed", *differing([run.settings for run in self.runs])}
        return {key: value for key, value in self.runs[0].settings.items() if key not in apart}

    @cached_property
    def label(self) -> str:
        """The name of the setting, unique in its environment."""
        return joined(policy_label(self.policy), self.others)

    @property
    def others(self) -> list[Setting]:
        """The settings in `varied` that do not belong to the environment."""
        return [one for one in self.varied if not of_world(one.key)]

    @property
    def environment(self) -> str:
        """The name of the environment, unique among the environments that were read."""
        own = [one for one in self.varied if of_world(one.key)]
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
        """The number of replicas of all runs together, of a difference in both settings."""
        return sum(
            min(last, self.base.last.get(seed, 0)) if self.base else last
            for seed, last in self.last.items()
        )

    @property
    def last(self) -> dict[int, int]:
        """The largest number of replicas under each seed."""
        counts = dict[int, int]()
        for run in self.runs:
            seed = run.summary["seed"]
            counts[seed] = max(counts.get(seed, 0), run.summary["replicas"])
        return counts

    @property
    def _firsts(self) -> Iterator[tuple[Run, int]]:
        """Yields each run with its first replica that no earlier run under its seed has."""
        seen = dict[int, int]()
        for run in self.runs:
            seed, count = run.summary["seed"], run.summary["replicas"]
            if (first := seen.get(seed, 0)) < count:
                yield run, first
                seen[seed] = count

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return self.runs[0].groups

    @property
    def seconds(self) -> float:
        """The total running time of the runs."""
        return float(sum(run.summary["seconds"] for run in self.runs))

    @cached_property
    def table(self) -> pd.DataFrame:
        """The finals of all runs with their `seed`; a replica of several runs stands once."""
        import pandas as pd

        parts = [
            run.finals[run.finals["replica"] >= first].assign(seed=run.summary["seed"])
            for run, first in self._firsts
        ]
        table = pd.concat(parts, ignore_index=True)
        return subtracted(table, self.base.table, PAIR) if self.base else table

    @cached_property
    def spreads(self) -> dict[str, dict[str, Any]]:
        """`n`, `mean`, `std`, `low` and `high` of every measure, by column; None where unknown.

        A metric has `reduce` and `lower_is_better`, too, and so has a measure of a group that is
        better high or low.
        """
        pooled = spreads(self.table, differences=self.base is not None)
        metrics: dict[str, Any] = {}
        for run in self.runs[::-1]:
            metrics |= run.summary["metrics"]
        described = {
            name: {"lower_is_better": low} for name, low in BY_GROUP.items() if low is not None
        }
        described |= {
            name: {part: metric[part] for part in ("reduce", "lower_is_better")}
            for name, metric in metrics.items()
        }
        described[COST] = {"lower_is_better": True}
        return {
            column_of(row["measure"], row["group"]): finite(
                {part: row[part] for part in ("n", "mean", "std", "low", "high")}
            )
            | described.get(row["measure"], {})
            for row in pooled.to_dict("records")
        }

    @cached_property
    def curves(self) -> dict[Key, Curve]:
        """The curves of all replicas, by measure and group."""
        known = [(run.curve_of, first) for run, first in self._firsts]
        shared = [key for key in known[0][0] if all(key in curves for curves, _ in known)]
        parts = {key: [curves[key].values[first:] for curves, first in known] for key in shared}
        steps = known[0][0]
        return {key: Curve(steps[key].rounds, np.concatenate(parts[key])) for key in shared}

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The metrics among the `spreads`."""
        return {column: spread for column, spread in self.spreads.items() if "reduce" in spread}

    def by_group(self, measure: str) -> tuple[Floats, Floats]:
        """Returns mean and std of a measure of each group, (G,) each; NaN where not known."""
        known = [self.spreads[column_of(measure, group)] for group in self.groups]
        mean, std = np.array([[s["mean"], s["std"]] for s in known], dtype=np.float64).T
        return mean, std

    def finals(self, column: str) -> Floats:
        """Returns a column of `spreads` in each replica, (B,)."""
        table = self.table
        names = [*map(column_of, table["measure"], table["group"])]
        return table["value"].to_numpy()[np.array(names) == column]

    def picks(self) -> NDArray[np.int64]:
        """Returns the number of replicas that picked each group in each round, (T, G)."""
        counts = [run.picks(first) for run, first in self._firsts]
        return np.sum(counts, axis=0)


def pool(runs: Sequence[Run], *, each: bool = False) -> list[PooledRuns]:
    """Pools runs that differ only in their seeds; settings are in the order of their first run.

    Settings that do not affect results, such as the device, may differ too, and so may further
    metrics, unless two runs have one metric with different parameters. With `each`, every run is
    on its own.
    """
    pools: dict[Any, list[Run]] = {}
    metrics = naming.further_metrics([run.settings for run in runs])
    apart = ("seed", *naming.NO_DIFFERENCE)
    for at, run in enumerate(runs):
        known = ((k, v) for k, v in run.settings.items() if k not in metrics)
        kept = {key: value for key, value in known if not key.startswith(apart)}
        pools.setdefault(at if each else (json.dumps(kept), run.groups), []).append(run)
    pooled = [PooledRuns(tuple(alike), each) for alike in pools.values()]
    found = naming.varied([setting.settings for setting in pooled]) if pooled else []
    return [replace(setting, varied=own) for setting, own in zip(pooled, found, strict=True)]


def subtracted(table: pd.DataFrame, base: pd.DataFrame, on: Sequence[str]) -> pd.DataFrame:
    """Subtracts the value with the same `on` in a baseline; rows without one are left out."""
    values = base[[*on, "value"]].rename(columns={"value": "base"})
    both = table.merge(values, on=[*on])
    return both.assign(value=both["value"] - both["base"]).drop(columns="base")


def paired_difference(run: PooledRuns, base: PooledRuns, column: str) -> dict[str, Any]:
    """Returns one of the `spreads` of the differences from a baseline; NaN for too few replicas."""
    difference = replace(run, base=base).spreads[column]
    return {key: math.nan if difference[key] is None else difference[key] for key in difference}


def differences(
    settings: Sequence[PooledRuns], baseline: str | Mapping[str, Any]
) -> list[PooledRuns]:
    """Returns the differences of settings from the baseline of their environment and rounds.

    Args:
        settings: the settings.
        baseline: the label or the policy of the baseline, or values of its settings.

    Raises:
        FairbanditError: the baseline does not match exactly one setting, or shares no seed and
            replica with another setting.
    """
    found = list[PooledRuns]()
    for environment, rounds in dict.fromkeys((run.environment, run.rounds) for run in settings):
        alike = [run for run in settings if (run.environment, run.rounds) == (environment, rounds)]
        base = _baseline(baseline, environment, alike)
        for run in (run for run in alike if run is not base):
            found.append(replace(run, base=base))
            if not found[-1].replicas:
                raise FairbanditError(f"{run.label!r} and {base.label!r} share no seed")
    if not found:
        raise FairbanditError(f"there is no run to compare with the baseline {baseline!r}")
    return found


def _baseline(
    asked: str | Mapping[str, Any], environment: str, runs: Sequence[PooledRuns]
) -> PooledRuns:
    guess = ""
    if isinstance(asked, str):
        matches = [run for run in runs if run.label == asked]
        matches = matches or [run for run in runs if run.policy == asked]
        names = [name for run in runs for name in (run.label, run.policy)]
        guess = "" if matches else did_you_mean(asked, names)
    else:
        matches = chosen(runs, {key: [value] for key, value in asked.items()})
    if len(matches) != 1:
        raise FairbanditError(
            f"the baseline {asked!r} names {'several settings' if matches else 'no setting'} of "
            f"{environment} with {runs[0].rounds:,} rounds{guess}; choose one of "
            f"{', '.join(repr(run.label) for run in matches or runs)}"
        )
    return matches[0]
