"""Pooled runs as a table on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from fairbandit.metrics import REGRETS
from fairbandit.results.differences import short_names, telling, union
from fairbandit.results.pooling import PooledRuns
from fairbandit.results.runs import FOLDER
from fairbandit.run.table import make_table, spread

_ALWAYS = ("policy", "environment", "rounds")


def overview(rows: Sequence[PooledRuns], *, folders: bool = False, title: str = "") -> Table:
    """Returns a table with a row for each setting.

    Args:
        rows: the settings.
        folders: whether to say where the first run of each is.
        title: stands above the table.

    Returns:
        Policy, environment, what else tells the settings apart, rounds, how many runs were pooled
        if any were, and how many replicas they have together; mean ± standard deviation of every
        metric over all replicas, a dash where it is unknown; and the seconds of all runs together.
    """
    own = [key for key in telling([row.settings for row in rows]) if key not in _ALWAYS]
    own = [key for key in own if key != "replicas"]
    names = short_names(own)
    columns = union(row.metrics for row in rows)
    metrics = [*REGRETS, *(column for column in columns if column not in REGRETS)]
    pooled = any(len(row.runs) > 1 for row in rows)
    cells = [
        [
            row.policy,
            row.runs[0].summary["environment"],
            *("" if (value := row.settings.get(key)) is None else str(value) for key in own),
            f"{row.rounds:,}",
            *([f"{len(row.runs):,}"] if pooled else []),
            f"{row.replicas:,}",
            *(_cell(row, column) for column in metrics),
            f"{row.seconds:.2f}",
            *([row.runs[0].place] if folders else []),
        ]
        for row in rows
    ]
    left = ["policy", "environment", *names.values()]
    right = ["rounds", *(["runs"] if pooled else []), "replicas"]
    right += [*(column.removesuffix("_regret") for column in metrics), "seconds"]
    headers = [*left, *right, *([FOLDER] if folders else [])]
    return make_table(headers, cells, right=right, title=title or None)


def _cell(row: PooledRuns, column: str) -> str:
    if column not in row.metrics:
        return "–"
    return spread(row.metrics[column], 1 if column in REGRETS else 3)
