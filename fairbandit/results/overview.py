"""Pooled runs as a table to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fairbandit.results.differences import short_names, telling, union
from fairbandit.results.pooling import PooledRuns
from fairbandit.results.runs import FOLDER
from fairbandit.run.table import Sheet, meanings, metric_header, spread


def overview(rows: Sequence[PooledRuns], *, folders: bool = False, title: str = "") -> Sheet:
    """Returns a table with a row for each setting.

    Args:
        rows: the settings.
        folders: whether to say where the first run of each is.
        title: stands above the table.

    Returns:
        Policy, with a mark if it knows the truth, environment, what else tells the settings apart,
        rounds, how many runs were pooled if any were, and how many replicas they have together;
        mean ± standard deviation of every metric over all replicas, a dash where it is unknown; and
        the seconds of all runs together. What is the same in several rows, policies and results
        aside, stands above.
    """
    own = [key for key in telling([row.settings for row in rows]) if key not in _SETTINGS]
    described = {column: metric for row in rows for column, metric in row.metrics.items()}
    named = {
        "policy": [f"{row.policy}{' *' * row.knows_truth}" for row in rows],
        "environment": [row.runs[0].summary["environment"] for row in rows],
        **{
            name: [
                "" if row.settings.get(key) is None else _text(row.settings[key]) for row in rows
            ]
            for key, name in short_names(own).items()
        },
        "rounds": [f"{row.rounds:,}" for row in rows],
        **(
            {"runs": [f"{len(r.runs):,}" for r in rows]}
            if any(len(r.runs) > 1 for r in rows)
            else {}
        ),
        "replicas": [f"{row.replicas:,}" for row in rows],
    }
    same = [name for name, cells in named.items() if name != "policy" and len(set(cells)) == 1]
    above = [f"{name} {named.pop(name)[0]}" for name in same]
    results = {
        **{
            metric_header(column, described[column]): [
                spread(row.metrics[column]) if column in row.metrics else "–" for row in rows
            ]
            for column in union(row.metrics for row in rows)
        },
        "seconds": [f"{row.seconds:.2f}" for row in rows],
        **({FOLDER: [row.runs[0].place for row in rows]} if folders else {}),
    }
    columns = named | results
    cells = list(zip(*columns.values(), strict=True))
    texts = [*results, *(text for row in cells for text in row)]
    return Sheet(
        list(columns), cells, len(named), title, ", ".join(above), meanings(texts) if rows else ""
    )


_SETTINGS = ("policy", "environment", "rounds", "replicas")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
