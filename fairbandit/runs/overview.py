"""Tables of pooled runs: for files, for the screen and for print, with the ranks of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fairbandit.errors import unknown
from fairbandit.files.files import natural_order
from fairbandit.notices import listed
from fairbandit.policy.build import policy_label
from fairbandit.runs.intervals import Floats, interval, moments
from fairbandit.runs.naming import full_key, shown, union
from fairbandit.runs.record import RATE
from fairbandit.runs.scenes import PooledRuns
from fairbandit.runs.settings import BY_GROUP, COST
from fairbandit.runs.sheets import Sheet, estimate, meanings, metric_header, spread
from fairbandit.runs.tables import column_of, subtracted

MOST_GROUPS = 4
"""The largest number of groups whose selection rates the overview shows unless asked."""

# measures, and the same in the unit of the reward
_IN_UNIT = {"reward": "raw_reward", "standard_regret": COST}

OF_PICKS = ("share", "reward", "raw_reward", "rank", "fair_regret_of_pick", "cost_of_pick")
"""The measures of a group that its table shows unless others are asked for."""

_DIFFERENCE = (
    "setting minus baseline, replica by replica, after the last round: mean [95 % interval over"
    " replicas]"
)


def overview(
    rows: Sequence[PooledRuns],
    *,
    groups: bool = False,
    columns: Sequence[str] | None = None,
    sort: str = "fair_regret",
    printed: bool = False,
) -> Sheet:
    """Returns a table with one row for each setting.

    A star marks policies that know the truth. Metrics are mean ± standard deviation over all
    replicas, or if the rows are differences, mean [95 % interval]. Values that all rows share,
    except policies and results, are written above the table.

    `groups` gives each setting a row for each group. `columns` are columns of `PooledRuns.spreads`,
    or of `BY_GROUP` with `groups`; by default, measures that all rows have in the unit of the
    reward are not shown in standard deviations, too. `sort` is a result, whose best row comes
    first, or a setting. A `printed` table has labels in place of names, rates with std, and the
    best in bold.
    """
    rows = _sorted(rows, sort)
    different = any("baseline" in row.table for row in rows)
    lines = [(row, group) for row in rows for group in (row.groups if groups else ("",))]
    spreads = [_of_group(row, group) if groups else row.spreads for row, group in lines]
    default = [name for name in OF_PICKS if any(name in entry for entry in spreads)]
    default = default if groups else _default(rows)
    if groups or different:
        default = [c for c in default if not all(_IN_UNIT.get(c) in entry for entry in spreads)]
    named, above = _named([row for row, _ in lines], printed)
    if groups:
        named["group"] = [group for _, group in lines]
    results, chosen = {}, default if columns is None else columns
    for column in chosen:
        spread_of = [entry.get(column) for entry in spreads]
        if not any(spread_of):
            raise unknown("column by group" if groups else "column", column, union(spreads))
        header = _header(column, rows, next(filter(None, spread_of)))
        text: Callable[[Mapping[str, Any]], str] = estimate if different else spread
        if not different and column.startswith(f"{RATE}:") and not (printed or columns):
            header, text = f"{column.removeprefix(RATE + ':')} [%]", _per_cent
        results[header] = [text(entry) if entry else "–" for entry in spread_of]
    cells = list(zip(*named.values(), *results.values(), strict=True))
    below = meanings([*results, *(text for row in cells for text in row)]) if rows else ""
    below = f"{_DIFFERENCE}; {below}" if different else below
    if not (groups or printed or columns) and any(len(r.groups) > MOST_GROUPS for r in rows):
        below += "; fairbandit collect FOLDER by=group shows who is picked"
    bold = _best(rows, chosen, len(named)) if printed and not (groups or different) else ()
    return Sheet([*named, *results], cells, len(named), above, below, bold)


def _named(rows: Sequence[PooledRuns], printed: bool) -> tuple[dict[str, list[str]], str]:
    """Returns the columns that name the rows, and the values that all rows share as a text."""
    varied = [{setting.name: setting.text for setting in row.varied} for row in rows]
    named = {
        "policy": [
            (policy_label(row.policy) if printed else row.policy) + " *" * row.knows_truth
            for row in rows
        ],
        "environment": [str(row.runs[0].summary["environment"]) for row in rows],
        **{name: [setting.get(name, "") for setting in varied] for name in union(varied)},
        "rounds": [f"{row.rounds:,}" for row in rows],
        "replicas": [f"{row.replicas:,}" for row in rows],
    }
    bases = [str(row.table["baseline"].iloc[0]) for row in rows if "baseline" in row.table]
    if bases:
        named["baseline"] = bases
    if any(len(row.runs) > 1 for row in rows):
        named["runs"] = [f"{len(row.runs):,}" for row in rows]
    same = [name for name, cells in named.items() if name != "policy" and len(set(cells)) == 1]
    return named, ", ".join(f"{name} {named.pop(name)[0]}" for name in same)


def _of_group(row: PooledRuns, group: str) -> dict[str, dict[str, Any]]:
    columns = {measure: column_of(measure, group) for measure in BY_GROUP}
    return {m: row.spreads[column] for m, column in columns.items() if column in row.spreads}


def _default(rows: Sequence[PooledRuns]) -> list[str]:
    groups, spreads = union(row.groups for row in rows), union(row.spreads for row in rows)
    rates = [column_of(RATE, group) for group in groups if len(groups) <= MOST_GROUPS]
    return [*union(row.metrics for row in rows), *({COST} & {*spreads}), *rates]


def _per_cent(rate: Mapping[str, Any]) -> str:
    return "–" if rate["mean"] is None else f"{100 * rate['mean']:.0f}"


def finding(rows: Sequence[PooledRuns]) -> str:
    """Says in a sentence which policy is the fairest, and which picks one group most often.

    It is about at least two policies that do not know the truth, in one environment with one number
    of rounds; otherwise it is empty.
    """
    worlds = {(row.environment, row.rounds) for row in rows}
    learners = [row for row in rows if not row.knows_truth and _loss(row, "fair_regret") < math.inf]
    if len(worlds) != 1 or len(learners) < 2:
        return ""
    ties = rank(learners, "fair_regret")[1]
    best = [row.label for row, tie in zip(learners, ties, strict=True) if tie]
    among = "the least fair regret of the policies that do not know the truth"
    text = f"{best[0]} has {among}"
    if len(best) > 1:
        text = f"{listed(best, 3)} have {among}; their replicas do not tell them apart"
    shares = [
        (row.spreads[column_of("share", group)]["mean"] or 0.0, row.label, group)
        for row in learners
        for group in row.groups
    ]
    share, label, group = max(shares)
    if share > 1.5 / len(learners[0].groups):
        text += f"; {label} makes {100 * share:.0f} % of its picks in group {group}"
    return f"{text}."


def _sorted(rows: Sequence[PooledRuns], sort: str) -> list[PooledRuns]:
    scenes = union([row.environment] for row in rows)
    results = dict.fromkeys(union(row.spreads for row in rows))
    key = full_key([*(row.settings for row in rows), results], sort) if rows else ""

    def place(row: PooledRuns) -> tuple[Any, ...]:
        value = natural_order(shown(row.settings.get(key)), True)
        return scenes.index(row.environment), _loss(row, key) if key in results else value

    return sorted(rows, key=place)


def _loss(run: PooledRuns, column: str) -> float:
    """Returns the mean of a result, or its negative if higher is better; inf if not known."""
    end = run.spreads.get(column, {"mean": None})
    if end["mean"] is None:
        return math.inf
    return float(end["mean"] if end.get("lower_is_better") else -end["mean"])


def _header(column: str, rows: Sequence[PooledRuns], spread: Mapping[str, Any]) -> str:
    """Returns the header of a result, with the unit of a cost or of a reward of tables."""
    title = {"raw_reward": "reward"}.get(column, column)
    if spread.get("lower_is_better") is None:
        return title.replace("_", " ").replace(":", " ")
    units = (run.summary.get("unit") for row in rows for run in row.runs)
    names = union([unit["name"]] for unit in units if unit)
    measured = {COST: "", "cost_of_pick": "", "raw_reward": "", "reward": "standardised "}
    unit = f" ({measured[column]}{' or '.join(names)})" if column in measured and names else ""
    return metric_header(title + unit, spread)


def _best(rows: Sequence[PooledRuns], columns: Sequence[str], first: int) -> list[tuple[int, int]]:
    bold = []
    for environment in union([row.environment] for row in rows):
        places = [at for at, row in enumerate(rows) if row.environment == environment]
        for number, column in enumerate(columns, first):
            ties = rank([rows[at] for at in places], column)[1]
            bold += [(at, number) for at, tie in zip(places, ties, strict=True) if tie]
    return bold


def rank(runs: Sequence[PooledRuns], column: str) -> tuple[Floats, Any]:
    """Ranks R runs by a metric, separately for each number of rounds.

    Returns:
        ranks: (R,), from 0 for the best to 1 for the worst; NaN for runs that know the truth, and
            for a column without a better direction.
        ties: (R,), whether the paired difference to the best is 0, or its interval contains 0.
    """
    ranks, ties = np.full(len(runs), np.nan), np.zeros(len(runs), bool)
    directed = any("lower_is_better" in run.spreads.get(column, {}) for run in runs)
    losses = [math.inf if run.knows_truth else _loss(run, column) for run in runs]
    ranked = [row for row, loss in enumerate(losses) if directed and loss < math.inf]
    for rounds in {runs[row].rounds for row in ranked}:
        rows = sorted((row for row in ranked if runs[row].rounds == rounds), key=losses.__getitem__)
        values = np.array([losses[row] for row in rows])
        steps = ~np.isclose(values[1:], values[:-1], rtol=1e-9, atol=1e-12)  # equal up to rounding
        ranks[rows] = np.concatenate([[0], steps.cumsum()]) / max(steps.sum(), 1)
        best = runs[rows[0]].rows(column)
        for row in rows:
            paired = subtracted(runs[row].rows(column), best, ["seed", "replica"])
            count, mean, std = moments(paired["value"])
            low, high = interval(count, mean, std)
            ties[row] = ranks[row] == 0 or mean == 0 or low <= 0 <= high
    return ranks, ties
