"""Chooses one of the policies of an evaluation, within limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError, unknown

if TYPE_CHECKING:
    import pandas as pd

PREFERRED = ("anytime", "dr", "direct", "snips", "ips", "exact")
"""The estimators by preference; policies are compared by the first that all of them have."""

_LIMIT = re.compile(r"\A\s*(.*[^\s<>=])\s*(<=|>=)\s*([^\s<>=]+)\s*\Z", re.DOTALL)

LESS = ("fair_regret", "reward_gap", "rank_gap")  # the measures of which less is better


def chosen(
    table: pd.DataFrame, choose: str | None, limits: str | Sequence[str] | None
) -> tuple[str | None, list[str]]:
    """Returns the policy of a table that `evaluate` chooses, or None, and notes on the others.

    A policy without an estimate of the measure of a limit is not within this limit.
    """
    if choose is None:
        raise FairbanditError("limits restrict what choose=MEASURE chooses, which is missing")
    within, excluded = dict.fromkeys(table["policy"]), list[str]()
    conditions = limits if isinstance(limits, (list, tuple)) else [limits] * (limits is not None)
    for limit in conditions:
        measure, sign, bound = _read_limit(limit)
        rows = preferred(table, measure)
        kept = rows["low"] >= bound if sign == ">=" else rows["high"] <= bound
        for name in [name for name in within if not kept.get(name, False)]:
            estimate = "unknown"
            if name in rows.index:
                value, low, high = rows.loc[name, ["value", "low", "high"]]
                estimate = f"{value:.3g} [{low:.3g}, {high:.3g}]"
            excluded.append(f"{name} with {measure} {estimate}")
            del within[name]
    rows = preferred(table, choose)
    if len(rows) < table["policy"].nunique():
        raise FairbanditError(f"choose={choose!r}: not all policies have an estimate of it")
    rows, less = rows.loc[[*within]], choose.partition(":")[0] in LESS
    (best, overlapping), notes = _best(rows, less), list[str]()
    if best is None and not rows.empty:
        others = f"the intervals of {choose} of {', '.join(rows.index)} are infinite"
        return None, [f"no policy is chosen: {others}"]
    if conditions:
        why = f"the {'smallest upper' if less else 'largest lower'} end of {choose}"
        among = f"{why} among the policies within {' and '.join(map(str.strip, conditions))}"
        others = f"; not within: {', '.join(excluded)}" * bool(excluded)
        notes.append(f"chosen {best}: {among}{others}" if best else f"no policy is chosen{others}")
    if tied := [name for name in overlapping if name != best]:
        notes.append(
            f"choose={choose}: {best} ties with {', '.join(tied)}: their intervals overlap, so "
            "that these estimates do not show which is better"
        )
    return best, notes


def best_of(rows: pd.DataFrame, measure: str) -> list[str]:
    """Returns the policies that are marked as the best by a measure, from its `preferred` rows.

    They are those whose intervals overlap the interval of the policy with the best worst case, as
    in `chosen`, and whose own worst case is better than the worst estimate. If the intervals of all
    policies overlap it, no policy is marked.
    """
    less, rows = measure in LESS, rows[rows["low"] <= rows["high"]]
    _, tied = _best(rows, less)
    if len(tied) == len(rows):
        return []
    worst = rows["high"] < rows["value"].max() if less else rows["low"] > rows["value"].min()
    return [name for name in tied if worst[name]]


def _best(rows: pd.DataFrame, less: bool) -> tuple[str | None, list[str]]:
    """The policy with the best worst case, or None if all are infinite, and its overlaps."""
    ends = rows["high" if less else "low"]
    ends = ends[np.isfinite(ends)]
    if ends.empty:
        return None, []
    best = str(ends.idxmin() if less else ends.idxmax())
    row = rows.loc[best]
    return best, [*rows.index[(rows["low"] <= row["high"]) & (rows["high"] >= row["low"])]]


def _read_limit(limit: Any) -> tuple[str, str, float]:
    try:
        (read,) = _LIMIT.findall(limit)
        return read[0], read[1], float(read[2])
    except (TypeError, ValueError) as error:
        raise FairbanditError(
            "limits: expected a text such as 'selection_ratio>=0.8' or 'reward_gap<=1', or a list "
            f"of such texts, got {limit!r}; in a shell, < and > need quotes"
        ) from error


def preferred(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Returns the rows of a measure by policy, of the first estimator that most policies have."""
    rows = table[table["measure"] == measure]
    if rows.empty:
        raise unknown("measure", measure, dict.fromkeys(table["measure"]))
    return _of_most(rows).set_index("policy")


def of_groups(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Returns `preferred` rows of a measure by group, whose label is in the column `group`."""
    names, _, labels = zip(*(of.partition(":") for of in table["measure"]), strict=True)
    rows = table.assign(group=labels)[[name == measure for name in names]]
    return _of_most(rows[rows["group"] != ""])


def _of_most(rows: pd.DataFrame) -> pd.DataFrame:
    counts = rows["estimator"].value_counts()
    best = max(PREFERRED, key=lambda name: (counts.get(name, 0), -PREFERRED.index(name)))
    return rows[rows["estimator"] == best]
