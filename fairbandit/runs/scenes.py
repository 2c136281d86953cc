"""Runs that differ only in their seeds, pooled into one setting, and the settings by environment.

All numbers are groupings of one tidy table of finals, or of differences from a baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.files.files import natural_order
from fairbandit.policy.build import policy_label
from fairbandit.runs.intervals import Floats
from fairbandit.runs.naming import Setting, chosen, differing, joined, of_world, union, varied
from fairbandit.runs.record import Curve, Key
from fairbandit.runs.saved import Run, read_runs
from fairbandit.runs.settings import BY_GROUP, COST, LACKING
from fairbandit.runs.summary import finite
from fairbandit.runs.tables import column_of, place_of, settings_of, spreads, tidy, values_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PooledRuns:
    """One setting: runs that differ only in their seeds, with all their replicas pooled.

    Attributes:
        runs: the runs, at least one.
        table: the rows of the setting in a tidy table of finals, or of differences from a baseline.
        settings: the settings in which the runs agree, without the seed.
        varied: the settings in which this row differs from other rows; see `naming.varied`.
        others: the settings in `varied` that do not belong to the environment.
        label: the name of the setting, unique in its environment.
        environment: the name of the environment, unique among the environments that were read.
    """

    runs: tuple[Run, ...]
    table: pd.DataFrame
    settings: dict[str, Any]
    varied: tuple[Setting, ...]
    others: Sequence[Setting]
    label: str
    environment: str
    policy: str
    groups: tuple[str, ...]
    rounds: int
    knows_truth: bool

    @cached_property
    def replicas(self) -> int:
        """The number of replicas of all runs together, of a difference in both settings."""
        return len(self.table[["seed", "replica"]].drop_duplicates())

    @cached_property
    def spreads(self) -> dict[str, dict[str, Any]]:
        """`n`, `mean`, `std`, `low` and `high` of every measure, by column; None where unknown.

        A metric has `reduce` and `lower_is_better`, too, and so has a measure of a group that is
        better high or low.
        """
        directions = {COST: True} | {name: low for name, low in BY_GROUP.items() if low is not None}
        described = {name: {"lower_is_better": low} for name, low in directions.items()}
        for name, metric in (pair for run in self.runs for pair in run.summary["metrics"].items()):
            described[name] = {part: metric[part] for part in ("reduce", "lower_is_better")}
        by_column = dict[str, dict[str, Any]]()
        for row in spreads(self.table).to_dict("records"):
            measure, group = row.pop("measure"), row.pop("group")
            by_column[column_of(measure, group)] = finite(row) | described.get(measure, {})
        return by_column

    @cached_property
    def curves(self) -> dict[Key, Curve]:
        """The curves by measure and group; a replica of several runs counts once."""
        by_key, keys = dict[Key, Curve](), ["measure", "group"]
        table = tidy(self.runs, curves=True).groupby(keys, observed=True, sort=False)
        for (measure, group), rows in table:
            rounds = rows["round"].unique()  # the same for each replica in turn
            values = rows["value"].to_numpy().reshape(-1, len(rounds))
            by_key[measure, None if group == LACKING else group] = Curve(rounds, values)
        return by_key

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The metrics among the `spreads`."""
        return {column: spread for column, spread in self.spreads.items() if "reduce" in spread}

    def by_group(self, measure: str) -> tuple[Floats, Floats]:
        """Returns mean and std of a measure of each group, (G,) each; NaN where not known."""
        measured = [self.spreads[column_of(measure, group)] for group in self.groups]
        mean, std = np.array([[s["mean"], s["std"]] for s in measured], dtype=np.float64).T
        return mean, std

    def rows(self, column: str) -> pd.DataFrame:
        """Returns the rows of a column of `spreads`: one for each seed and replica."""
        measure, _, group = column.partition(":")
        rows = self.table[self.table["measure"] == measure]
        return rows[rows["group"] == (group or LACKING)]

    def finals(self, column: str) -> Floats:
        """Returns a column of `spreads` in each replica, (B,)."""
        return self.rows(column)["value"].to_numpy()


def pool(runs: Sequence[Run], table: pd.DataFrame | None = None) -> list[PooledRuns]:
    """Pools runs that differ only in their seeds, in further metrics or in what changes no result.

    The table is the tidy table of the runs, or of the differences of some from a baseline.
    """
    table = tidy(runs) if table is None else table
    keys, pools = settings_of(table), dict[tuple[Any, ...], list[Run]]()
    for run in runs:
        pools.setdefault(values_of(run, keys), []).append(run)
    settings = list[dict[str, Any]]()
    for alike in pools.values():
        varying = {"seed", *differing([run.settings for run in alike])}
        settings.append({k: v for k, v in alike[0].settings.items() if k not in varying})
    rows: dict[Any, pd.DataFrame] = dict(iter(table.groupby(keys, observed=True, sort=False)))
    pooled = []
    for key, names, agreed in zip(pools, varied(settings), settings, strict=True):
        if key not in rows:
            continue
        first = pools[key][0].summary
        world, others = ([s for s in names if of_world(s.key) == part] for part in (True, False))
        pooled.append(
            PooledRuns(
                tuple(pools[key]),
                rows[key],
                settings=agreed,
                varied=names,
                others=others,
                label=joined(policy_label(first["policy"]), others),
                environment=joined(first["environment"], world),
                policy=first["policy"],
                groups=tuple(first["groups"]),
                rounds=first["rounds"],
                knows_truth=bool(first.get("knows_truth")),
            )
        )
    return pooled


@dataclass(frozen=True)
class Scene:
    """The pooled runs in one environment, in the order in which figures and reports list them."""

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
        """The true rewards of each group: `value`, `density` and `cdf`; None if not known."""
        stored = (run.rewards for pooled in self.runs for run in pooled.runs)
        complete = (rewards for rewards in stored if any(group is not None for group in rewards))
        return next(complete, (None,) * len(self.groups))

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
        """Returns the scene with only the runs of some policies; None selects all."""
        where = {} if policies is None else {"policy": policies}
        return replace(self, runs=tuple(chosen(self.runs, where)))


def read_scenes(folders: Sequence[Path]) -> list[Scene]:
    """Reads the runs below some folders, and returns one scene for each environment."""
    return scenes_of(read_runs(folders))


def scenes_of(runs: Sequence[Run], table: pd.DataFrame | None = None) -> list[Scene]:
    """Pools runs, and returns one scene for each environment; see `pool` for the table.

    Named policies come first, in their order. Runs of one policy are sorted by their settings.
    """

    def order(run: PooledRuns) -> tuple[Any, ...]:
        return run.environment, *place_of(run.policy), natural_order(run.label, decimals=True)

    scenes: dict[str, list[PooledRuns]] = {}
    for run in sorted(pool(runs, table), key=order):
        scenes.setdefault(run.environment, []).append(run)
    return [Scene(name, tuple(members)) for name, members in scenes.items()]
