"""Saved runs, alone or pooled, as one table with a column for each metric and differing setting."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fairbandit.errors import FairbanditError
from fairbandit.files import written_aside
from fairbandit.results.differences import differing, union
from fairbandit.results.runs import KEYS

ENDINGS = (".parquet", ".csv")
"""The endings of the files that a table can be written to."""


class Row(Protocol):
    """What has a row in tables: a run, or runs that were pooled."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings by dotted keys."""

    @property
    def results(self) -> Mapping[str, Any]:
        """The results by their columns."""


def settings_shown(rows: Sequence[Row]) -> list[str]:
    """Returns the settings that tables show: `KEYS`, and those in which the rows differ.

    A key over which all rows are pooled is not shown.
    """
    always = [key for key in KEYS if any(key in row.settings for row in rows)]
    return [*always, *(key for key in differing([row.settings for row in rows]) if key not in KEYS)]


def tidy(rows: Sequence[Row]) -> pa.Table:
    """Makes one table of runs, or of pooled runs, a row each.

    Its columns are the settings of `settings_shown` and the results; what a row does not have is
    null.
    """
    columns = {
        key: _column([row.settings.get(key) for row in rows]) for key in settings_shown(rows)
    }
    for name in union(row.results for row in rows):
        columns[name] = _column([row.results.get(name) for row in rows])
    return pa.table(columns)


def check_ending(path: Path) -> None:
    """Refuses a file that `write` cannot write.

    Raises:
        FairbanditError: the ending is not among `ENDINGS`.
    """
    if path.suffix not in ENDINGS:
        raise FairbanditError(
            f"{path} must end in {' or '.join(ENDINGS)}, which says how the table is written"
        )


def write(table: pa.Table, path: Path) -> None:
    """Writes a table as Parquet or CSV, as the file's suffix says, whole or not at all.

    Raises:
        FairbanditError: the ending is unknown, or the file cannot be written.
    """
    check_ending(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as file:
            if path.suffix == ".csv":
                pyarrow.csv.write_csv(table, file)
            else:
                pyarrow.parquet.write_table(table, file, write_page_checksum=True)
    except OSError as error:
        raise FairbanditError(f"cannot write {path}: {error.strerror or error}") from error


def csv_text(table: pa.Table) -> str:
    """Returns a table as CSV."""
    held = io.BytesIO()
    pyarrow.csv.write_csv(table, held)
    return held.getvalue().decode()


def _column(values: Sequence[Any]) -> pa.Array:
    """Values as whole numbers, numbers, truth values or text, whichever holds them all."""
    types = {type(value) for value in values if value is not None}
    if types == {int} and all(abs(value or 0) < 2**63 for value in values):
        return pa.array(values, pa.int64())
    if types <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if types == {bool}:
        return pa.array(values, pa.bool_())
    texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
    return pa.array(texts, pa.string())
