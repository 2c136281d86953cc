"""Pooled runs as a table to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fairbandit.results.differences import distinguishing, short_names, union
from fairbandit.results.pooling import PooledRuns
from fairbandit.results.runs import FOLDER
from fairbandit.run.table import Sheet, meanings, metric_header, spread


def overview(rows: Sequence[PooledRuns]) -> Sheet:
    """Returns a table with a row for each setting; single runs have their folders.

    Policies have a mark if they know the truth. Metrics are mean ± standard deviation over all
    replicas. What is the same in several rows, policies and results aside, stands above.
    """
    always = ("policy", "environment", "rounds", "replicas")
    apart = [key for key in distinguishing([row.settings for row in rows]) if key not in always]
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
    if any(row.each for row in rows):
        results[FOLDER] = [row.runs[0].place for row in rows]
    cells = list(zip(*named.values(), *results.values(), strict=True))
    below = meanings([*results, *(text for row in cells for text in row)]) if rows else ""
    return Sheet([*named, *results], cells, len(named), above, below)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
