"""Runs that differ only in their seeds, pooled into one setting.

All numbers are groupings of one tidy table of finals, or of differences from a baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.policy.build import policy_label
from fairbandit.runs import naming
from fairbandit.runs.intervals import Floats
from fairbandit.runs.naming import Setting, differing, joined, of_world
from fairbandit.runs.record import Curve, Key
from fairbandit.runs.saved import Run
from fairbandit.runs.settings import BY_GROUP, COST, LACKING
from fairbandit.runs.summary import finite
from fairbandit.runs.tables import column_of, differences, settings_of, spreads, tidy

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PooledRuns:
    """One setting: runs that differ only in their seeds, with all their replicas pooled.

    Attributes:
        runs: the runs, at least one.
        each: whether this is a single run that keeps its seed.
        varied: the settings that tell this one from others; see `naming.varied`.
        difference: the differences from a baseline that stand for the results, if any.
    """

    runs: tuple[Run, ...]
    each: bool = False
    varied: tuple[Setting, ...] = ()
    difference: pd.DataFrame | None = None

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
        world = [one for one in self.varied if of_world(one.key)]
        return joined(str(self.runs[0].summary["environment"]), world)

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

    @cached_property
    def replicas(self) -> int:
        """The number of replicas of all runs together, of a difference in both settings."""
        return len(self.table[["seed", "replica"]].drop_duplicates())

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their codes."""
        return self.runs[0].groups

    @cached_property
    def table(self) -> pd.DataFrame:
        """The tidy table of the finals of all runs, or of the differences."""
        return tidy(self.runs) if self.difference is None else self.difference

    @cached_property
    def spreads(self) -> dict[str, dict[str, Any]]:
        """`n`, `mean`, `std`, `low` and `high` of every measure, by column; None where unknown.

        A metric has `reduce` and `lower_is_better`, too, and so has a measure of a group that is
        better high or low.
        """
        metrics = {name: one for run in self.runs for name, one in run.summary["metrics"].items()}
        described = {
            name: {"lower_is_better": low} for name, low in BY_GROUP.items() if low is not None
        }
        described |= {
            name: {part: metric[part] for part in ("reduce", "lower_is_better")}
            for name, metric in metrics.items()
        }
        described[COST] = {"lower_is_better": True}
        found = spreads(self.table, differences=self.difference is not None)
        rows = found.set_index(["measure", "group"]).to_dict("index")
        return {
            column_of(measure, group): finite(spread) | described.get(measure, {})
            for (measure, group), spread in rows.items()
        }

    @cached_property
    def curves(self) -> dict[Key, Curve]:
        """The curves by measure and group; a replica of several runs counts once."""
        parts, seen = dict[Key, list[Curve]](), dict[int, int]()
        for run in self.runs:
            first = seen.get(run.summary["seed"], 0)
            seen[run.summary["seed"]] = max(first, run.summary["replicas"])
            for key, rows in run.curves.groupby(["measure", "group"], observed=True, sort=False):
                rounds = rows["round"].unique()  # the same for each replica in turn
                values = rows["value"].to_numpy().reshape(-1, len(rounds))[first:]
                measure, group = key
                named = measure, None if group == LACKING else group
                parts.setdefault(named, []).append(Curve(rounds, values))
        return {
            key: Curve(curves[0].rounds, np.concatenate([curve.values for curve in curves]))
            for key, curves in parts.items()
        }

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The metrics among the `spreads`."""
        return {column: spread for column, spread in self.spreads.items() if "reduce" in spread}

    def by_group(self, measure: str) -> tuple[Floats, Floats]:
        """Returns mean and std of a measure of each group, (G,) each; NaN where not known."""
        known = [self.spreads[column_of(measure, group)] for group in self.groups]
        mean, std = np.array([[s["mean"], s["std"]] for s in known], dtype=np.float64).T
        return mean, std

    def rows(self, column: str) -> pd.DataFrame:
        """Returns the rows of a column of `spreads`: one for each seed and replica."""
        measure, named, group = column.partition(":")
        table = self.table
        return table[
            (table["measure"] == measure) & (table["group"] == (group if named else LACKING))
        ]

    def finals(self, column: str) -> Floats:
        """Returns a column of `spreads` in each replica, (B,)."""
        return self.rows(column)["value"].to_numpy()


def pool(runs: Sequence[Run], *, each: bool = False) -> list[PooledRuns]:
    """Pools runs that differ only in their seeds; settings are in the order of their first run.

    Settings that do not affect results, such as the device, may differ too, and so may further
    metrics, unless two runs have one metric with different parameters. With `each`, every run is
    on its own.
    """
    pools: dict[Any, list[Run]] = {}
    keys = [key for key in naming.telling_keys([run.settings for run in runs]) if key != "seed"]
    for at, run in enumerate(runs):
        known = tuple(naming.shown(run.settings.get(key)) for key in keys)
        pools.setdefault(at if each else known, []).append(run)
    pooled = [PooledRuns(tuple(alike), each) for alike in pools.values()]
    found = naming.varied([setting.settings for setting in pooled]) if pooled else []
    return [replace(setting, varied=names) for setting, names in zip(pooled, found, strict=True)]


def compared(settings: Sequence[PooledRuns], against: str | Mapping[str, Any]) -> list[PooledRuns]:
    """Returns the settings with their differences from a baseline; see `compare`."""
    table = differences(tidy([run for setting in settings for run in setting.runs]), against)
    found = list[PooledRuns]()
    for setting in settings:
        known = {key: setting.settings.get(key) for key in settings_of(table)}
        mine = [table[k] == (LACKING if v is None else v) for k, v in known.items()]
        rows = table[np.logical_and.reduce(mine)]
        found += [replace(setting, difference=rows)] if len(rows) else []
    return found
