"""Pooled runs as one table with a column for each metric and differing setting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fairbandit.errors import FairbanditError
from fairbandit.files import written_aside
from fairbandit.results.differences import differing, union
from fairbandit.results.pooling import PooledRuns
from fairbandit.results.runs import KEYS

ENDINGS = (".parquet", ".csv")
"""The endings of the files that a table can be written to."""


def tidy(rows: Sequence[PooledRuns]) -> pa.Table:
    """Makes one table of pooled runs, a row each.

    Its columns are `KEYS` but for a seed over which all rows are pooled, the settings in which the
    rows differ, and the results; what a row does not have is null.
    """
    settings, results = [row.settings for row in rows], [row.results() for row in rows]
    shown = [key for key in KEYS if any(key in one for one in settings)]
    shown += [key for key in differing(settings) if key not in KEYS]
    columns = {key: _column([one.get(key) for one in settings]) for key in shown}
    columns |= {name: _column([one.get(name) for one in results]) for name in union(results)}
    return pa.table(columns)


def write(table: pa.Table, path: Path) -> None:
    """Writes a table as Parquet or CSV, as the file's suffix says, whole or not at all.

    Raises:
        FairbanditError: the ending is unknown, or the file cannot be written.
    """
    if path.suffix not in ENDINGS:
        raise FairbanditError(
            f"{path} must end in {' or '.join(ENDINGS)}, which says how the table is written"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as file:
            if path.suffix == ".csv":
                pyarrow.csv.write_csv(table, file)
            else:
                pyarrow.parquet.write_table(table, file, write_page_checksum=True)
    except OSError as error:
        raise FairbanditError(f"cannot write {path}: {error.strerror or error}") from error


def _column(values: Sequence[Any]) -> pa.Array:
    """Values as numbers, truth values or text, whichever holds them all."""
    types = {type(value) for value in values if value is not None}
    with suppress(pa.ArrowException, OverflowError):  # of an integer of more than 64 bits
        if len(types) == 1 or types <= {int, float}:
            return pa.array(values, None if types else pa.float64())
    return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values])
