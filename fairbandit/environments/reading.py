"""CSV and Parquet read alike: only the columns asked for, in blocks, with errors that say where.

Rows are numbered from 1, the first data row, as a message shows them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError

BLOCK_BYTES = 1 << 22
"""Bytes of a CSV file parsed at once."""

BLOCK_ROWS = 1 << 16
"""Rows of a Parquet file read at once."""

_BROKEN_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)
_INTEGER = re.compile(r"[-+]?[0-9]+(\.0*)?")


def listed(items: Sequence[str], limit: int = 30) -> str:
    """Items for a message, the first `limit` of them."""
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


class Block:
    """Consecutive rows of a table.

    Args:
        path: the file, for messages.
        start: how many rows stand before the block.
        batch: the rows.
    """

    def __init__(self, path: Path, start: int, batch: Any) -> None:
        self.path, self.start, self.batch = path, start, batch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def error(self, column: str, offset: int, problem: str) -> FairbanditError:
        """The error for one cell, named by its column and its row in the file."""
        row = self.start + offset + 1
        return FairbanditError(f"{self.path}, column {column!r}, row {row}: {problem}")

    def numbers(self, column: str, *, missing: bool = False) -> NDArray[np.float64]:
        """A column as finite numbers.

        Args:
            column: its name.
            missing: lets empty cells through, as NaN.

        Returns:
            float64, one a row.

        Raises:
            FairbanditError: text, an empty cell or a number that is not finite, with its row.
        """
        cells = self._cells(column)
        kind = cells.type
        if pa.types.is_string(kind):
            cells = self._parsed(column, cells)
        elif pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind):
            raise FairbanditError(f"{self.path}, column {column!r}: expected numbers, got {kind}")
        values = pc.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if not missing:
            self.require_finite(column, values)
        return np.asarray(values, dtype=np.float64)

    def texts(self, column: str) -> Any:
        """A column as an Arrow array of texts, stripped of surrounding blanks.

        Raises:
            FairbanditError: an empty cell, with its row, or cells that have no text form.
        """
        cells = self._cells(column)
        try:
            cells = pc.utf8_trim_whitespace(pc.cast(cells, pa.string()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise FairbanditError(
                f"{self.path}, column {column!r}: expected labels or codes, got {cells.type}"
            ) from None
        empty = pc.fill_null(pc.equal(cells, ""), True).to_numpy(zero_copy_only=False)
        if pa.types.is_floating(self.batch.schema.field(column).type):
            empty = empty | np.isnan(self.numbers(column, missing=True))
        if empty.any():
            raise self.error(column, int(empty.argmax()), "the cell is empty; expected a value")
        return cells

    def labels(self, column: str) -> tuple[list[str], NDArray[np.int64]]:
        """A column's distinct labels, and each row's place among them.

        Whole numbers are written alike in every file: `1`, `1.0` and `01` are the label `1`.

        Returns:
            The labels in order of appearance (one may stand twice), and int64 places, one a row.
        """
        encoded = self.texts(column).dictionary_encode()
        names = [_label(text) for text in encoded.dictionary.to_pylist()]
        places = encoded.indices.to_numpy(zero_copy_only=False)
        return names, np.asarray(places, dtype=np.int64)

    def require_finite(self, column: str, values: NDArray[np.float64]) -> None:
        """Raises the error for the first value that is NaN or infinite, if there is one."""
        bad = ~np.isfinite(values)
        if bad.any():
            offset = int(bad.argmax())
            got = "an infinite number" if np.isinf(values[offset]) else "NaN or an empty cell"
            raise self.error(column, offset, f"expected a number, got {got}")

    def _cells(self, column: str) -> Any:
        cells = self.batch.column(self.batch.schema.get_field_index(column))
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        return cells.cast(pa.string()) if pa.types.is_large_string(cells.type) else cells

    def _parsed(self, column: str, cells: Any) -> Any:
        trimmed = pc.utf8_trim_whitespace(cells)
        cells = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
        try:
            return pc.cast(cells, pa.float64())
        except pa.ArrowInvalid:
            texts = cells.to_pylist()
            offset = next(i for i, text in enumerate(texts) if not _is_number(text))
            problem = f"expected a number, got the text {texts[offset]!r}"
            raise self.error(column, offset, problem) from None


class Source:
    """A table file, opened: its column names, and its rows in blocks.

    Args:
        path: a file that ends in .csv or .parquet.

    Raises:
        FairbanditError: no such file, another ending, an empty or damaged file, or a column name
            that stands twice.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise FairbanditError(f"there is no file {self.path}; expected a CSV or Parquet table")
        ending = self.path.suffix.lower()
        if ending not in (".csv", ".parquet"):
            raise FairbanditError(
                f"{self.path} ends in {ending or 'nothing'!r}; expected .csv or .parquet"
            )
        if self.path.stat().st_size == 0:
            raise FairbanditError(f"{self.path} is empty; expected a table with a header")
        self._parquet = ending == ".parquet"
        self.columns = self._guarded_header()
        twice = [name for name in dict.fromkeys(self.columns) if self.columns.count(name) > 1]
        if any(twice):  # names may be empty: spreadsheets leave empty columns behind
            raise FairbanditError(
                f"{self.path}: column {listed([repr(name) for name in twice if name])} stands "
                "more than once in the header; every name must be unique"
            )

    def require(self, columns: Sequence[str]) -> None:
        """Checks that the table has the columns.

        Raises:
            FairbanditError: a column is lacking; the message lists what there is.
        """
        lacking = [name for name in dict.fromkeys(columns) if name not in self.columns]
        if lacking:
            raise FairbanditError(
                f"{self.path} has no column {listed([repr(name) for name in lacking])}; it has "
                f"{listed([repr(name) for name in self.columns]) or 'none'}"
            )

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The table's rows, with the given columns alone.

        Raises:
            FairbanditError: a column is lacking, or the file is damaged (with the row, in a CSV).
        """
        columns = list(dict.fromkeys(columns))
        self.require(columns)
        start = 0
        batches = self._parquet_batches if self._parquet else self._csv_batches
        for batch in batches(columns):
            if batch.num_rows:
                yield Block(self.path, start, batch)
            start += batch.num_rows

    def _guarded_header(self) -> list[str]:
        try:
            return self._parquet_header() if self._parquet else self._csv_header()
        except (pa.ArrowException, OSError, csv.Error) as error:
            raise self._damaged(error) from error

    def _parquet_header(self) -> list[str]:
        with pq.ParquetFile(self.path) as file:
            return list(file.schema_arrow.names)

    def _csv_header(self) -> list[str]:
        # a name that is not UTF-8 is no obstacle unless it is asked for
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            return next((row for row in csv.reader(file) if row), [])

    def _parquet_batches(self, columns: list[str]) -> Iterator[Any]:
        try:
            with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 20) as file:
                yield from file.iter_batches(BLOCK_ROWS, columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _csv_batches(self, columns: list[str]) -> Iterator[Any]:
        try:
            with pa_csv.open_csv(
                self.path,
                # a single thread, so that rows can be numbered
                read_options=pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
                parse_options=pa_csv.ParseOptions(newlines_in_values=True),
                # as text, so that this module says what is wrong with a cell
                convert_options=pa_csv.ConvertOptions(
                    include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
                ),
            ) as reader:
                yield from reader
        except (pa.ArrowException, OSError) as error:
            raise self._broken_row(error) or self._damaged(error) from None

    def _broken_row(self, error: Exception) -> FairbanditError | None:
        # Read from the message: a handler of one's own would be held by Arrow's threads, which
        # abort the process when they let go of it while the interpreter ends.
        found = _BROKEN_ROW.search(str(error))
        if found is None:
            return None
        row, expected, got, text = found.groups()
        return FairbanditError(
            f"{self.path}, row {int(row) - 1}: expected {expected} columns, got {got} "
            f"({text[:60]!r}); the file may be truncated"
        )

    def _damaged(self, error: Exception) -> FairbanditError:
        kind = "Parquet" if self._parquet else "CSV (UTF-8, commas)"
        reason = str(error).splitlines()[0][:200]
        return FairbanditError(
            f"{self.path} is not a readable {kind} file; it may be truncated: {reason}"
        )


def _label(text: str) -> str:
    return str(int(text.split(".")[0])) if _INTEGER.fullmatch(text) else text


def _is_number(text: str | None) -> bool:
    try:
        pc.cast(pa.array([text], pa.string()), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
