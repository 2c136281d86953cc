"""Tables of pooled runs: the complete table for files, and an overview for the screen."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fairbandit.errors import FairbanditError
from fairbandit.files import written_aside
from fairbandit.labels import NUMBER
from fairbandit.results.differences import differing, distinguishing, short_names, union
from fairbandit.results.pooling import PooledRuns
from fairbandit.results.runs import FOLDER, KEYS
from fairbandit.run.table import Sheet, meanings, metric_header, spread

ENDINGS = (".parquet", ".csv")
"""The suffixes of the files that a table can be written to."""

# matches texts that a spreadsheet would run as formulas
_FORMULA = re.compile(rf"\A(?=[-+=@\t\r＝＋－＠])(?!{NUMBER}\Z)")


def tidy(rows: Sequence[PooledRuns]) -> pa.Table:
    """Makes one table of pooled runs, with one row for each.

    The columns are `KEYS`, without the seed if all rows pool seeds; the other settings in which
    the rows differ; and the results. Missing values are null.
    """
    settings, results = [row.settings for row in rows], [row.results() for row in rows]
    shown = [key for key in KEYS if any(key in row for row in settings)]
    shown += [key for key in differing(settings) if key not in KEYS]
    columns = {key: _column([row.get(key) for row in settings]) for key in shown}
    columns |= {name: _column([row.get(name) for row in results]) for name in union(results)}
    return pa.table(columns)


def overview(rows: Sequence[PooledRuns]) -> Sheet:
    """Returns a table with one row for each setting; single runs also show their folders.

    A star marks policies that know the truth. Metrics are mean ± standard deviation over all
    replicas. Values that all rows share, except policies and results, are written above the table.
    """
    always = ("policy", "environment", "rounds", "replicas")
    apart = [key for key in distinguishing([row.settings for row in rows]) if key not in always]
    named = {
        "policy": [f"{row.policy}{' *' * row.knows_truth}" for row in rows],
        "environment": [row.runs[0].summary["environment"] for row in rows],
        **{
            name: [_cell(row.settings.get(key)) for row in rows]
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


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def write(table: pa.Table, path: Path) -> None:
    """Writes a table atomically as Parquet or CSV, according to the file's suffix.

    In CSV, an apostrophe is put before a text that a spreadsheet would run as a formula.

    Raises:
        FairbanditError: the suffix is unknown.
        OSError: the file cannot be written.
    """
    if path.suffix not in ENDINGS:
        raise FairbanditError(
            f"{path} must end in {' or '.join(ENDINGS)}, which sets the format of the table"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as file:
        if path.suffix == ".csv":
            columns = [_inert(column) for column in table.columns]
            names = [_FORMULA.sub("'", name) for name in table.column_names]
            pyarrow.csv.write_csv(pa.table(columns, names), file)
        else:
            pyarrow.parquet.write_table(table, file, write_page_checksum=True)


def _inert(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_primitive(column.type):
        return column
    texts = column.to_pylist()
    return pa.chunked_array([[_FORMULA.sub("'", v) if isinstance(v, str) else v for v in texts]])


def _column(values: Sequence[Any]) -> pa.Array:
    types = {type(value) for value in values if value is not None}
    with suppress(pa.ArrowException, OverflowError):  # integers beyond 64 bits become texts
        if len(types) == 1 or types <= {int, float}:
            return pa.array(values, None if types else pa.float64())
    return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values])
