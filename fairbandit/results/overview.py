"""Pooled runs as a table to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fairbandit.results.differences import distinguishing, short_names, union
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
        Policy, with a mark if it knows the truth, environment, the other settings that differ,
        rounds, how many runs were pooled if any were, and how many replicas they have together;
        mean ± standard deviation of every metric over all replicas, a dash where it is unknown; and
        the seconds of all runs together. What is the same in several rows, policies and results
        aside, stands above.
    """
    apart = [key for key in distinguishing([row.settings for row in rows]) if key not in _SETTINGS]
    named = {
        "policy": [f"{row.policy}{' *' * row.knows_truth}" for row in rows],
        "environment": [row.runs[0].summary["environment"] for row in rows],
        **{
            name: [_text(row.settings.get(key)) for row in rows]
            for key, name in short_names(apart).items()
        },
        "rounds": [f"{row.rounds:,}" for row in rows],
        "runs": [f"{len(row.runs):,}" for row in rows],
        "replicas": [f"{row.replicas:,}" for row in rows],
    }
    if set(named["runs"]) <= {"1"}:
        del named["runs"]
    same = [name for name, cells in named.items() if name != "policy" and len(set(cells)) == 1]
    above = ", ".join(f"{name} {named.pop(name)[0]}" for name in same)
    described = {column: metric for row in rows for column, metric in row.metrics.items()}
    results = {
        metric_header(column, described[column]): [
            spread(row.metrics[column]) if column in row.metrics else "–" for row in rows
        ]
        for column in union(row.metrics for row in rows)
    }
    results["seconds"] = [f"{row.seconds:.2f}" for row in rows]
    if folders:
        results[FOLDER] = [row.runs[0].place for row in rows]
    cells = list(zip(*named.values(), *results.values(), strict=True))
    below = meanings([*results, *(text for row in cells for text in row)]) if rows else ""
    return Sheet([*named, *results], cells, len(named), title, above, below)


_SETTINGS = ("policy", "environment", "rounds", "replicas")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
