"""Tables of pooled runs: the complete table for files, and an overview for the screen."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from fairbandit.results.by_group import MEASURES
from fairbandit.results.naming import differing, shown, union
from fairbandit.results.pooling import PooledRuns
from fairbandit.results.runs import FOLDER, KEYS
from fairbandit.run.table import Sheet, meanings, metric_header, spread


def tidy(rows: Sequence[PooledRuns], *, groups: bool = False) -> pa.Table:
    """Makes one table of pooled runs, with one row for each.

    The columns are `KEYS`, without the seed if all rows pool seeds; the other settings in which
    the rows differ; and the results, with `groups` also by group. Missing values are null.
    """
    settings, results = [row.settings for row in rows], [row.results(groups=groups) for row in rows]
    keys = [key for key in KEYS if any(key in row for row in settings)]
    keys += [key for key in differing(settings) if key not in KEYS]
    columns = {key: _column([row.get(key) for row in settings]) for key in keys}
    columns |= {name: _column([row.get(name) for row in results]) for name in union(results)}
    return pa.table(columns)


def overview(rows: Sequence[PooledRuns], *, groups: bool = False) -> Sheet:
    """Returns a table with one row for each setting; single runs also show their folders.

    With `groups`, each setting has a row for each group, with the means over the group's picks.

    A star marks policies that know the truth. Metrics are mean ± standard deviation over all
    replicas. Values that all rows share, except policies and results, are written above the table.
    """
    varied = [{one.name: one.text for one in row.varied} for row in rows]
    named = {
        "policy": [f"{row.policy}{' *' * row.knows_truth}" for row in rows],
        "environment": [str(row.runs[0].summary["environment"]) for row in rows],
        **{name: [own.get(name, "") for own in varied] for name in union(varied)},
        "rounds": [f"{row.rounds:,}" for row in rows],
        "replicas": [f"{row.replicas:,}" for row in rows],
    }
    if any(len(row.runs) > 1 for row in rows):
        named["runs"] = [f"{len(row.runs):,}" for row in rows]
    same = [name for name, cells in named.items() if name != "policy" and len(set(cells)) == 1]
    above = ", ".join(f"{name} {named.pop(name)[0]}" for name in same)
    results = {}
    for column in union(row.metrics for row in rows):
        known = [row.metrics.get(column) for row in rows]
        header = metric_header(column, next(filter(None, known)))
        results[header] = [spread(metric) if metric else "–" for metric in known]
    results["seconds"] = [f"{row.seconds:.2f}" for row in rows]
    if any(row.each for row in rows):
        results[FOLDER] = [row.runs[0].place for row in rows]
    if groups:
        pairs = [(at, group) for at, row in enumerate(rows) for group in row.groups]
        named = {name: [cells[at] for at, _ in pairs] for name, cells in named.items()}
        named["group"] = [group for _, group in pairs]
        results = {
            f"{measure.replace('_', ' ')} {sign}".strip(): [
                spread(rows[at].of_groups[f"{measure}:{group}"]) for at, group in pairs
            ]
            for measure, sign in MEASURES.items()
        }
    cells = list(zip(*named.values(), *results.values(), strict=True))
    below = meanings([*results, *(text for row in cells for text in row)]) if rows else ""
    return Sheet([*named, *results], cells, len(named), above, below)


def _column(values: Sequence[Any]) -> pa.Array:
    types = {type(value) for value in values if value is not None}
    with suppress(pa.ArrowException, OverflowError):  # integers beyond 64 bits become texts
        if len(types) == 1 or types <= {int, float}:
            return pa.array(values, None if types else pa.float64())
    return pa.array([value if value is None else shown(value) for value in values])
