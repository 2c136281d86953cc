"""Reads columns of CSV and Parquet tables in blocks; its errors name the cell at fault.

A cell of a CSV file is named by its line, a cell of a Parquet file by its row, both counted from 1.
The same rules hold for both formats:

- A *number* is finite, at most 1e100 in magnitude, and keeps its digits: the nearest float64,
  written with as many digits as the cell has or in its shortest form, is the cell again. This holds
  for integers up to 2⁵³ and for all numbers of at most 15 significant digits. `true` is 1 and
  `false` is 0.
- A *label* is neither empty nor a spelling of a missing value (`MISSING`). Different spellings of a
  whole number or of a truth value are one label: `1`, `1.0` and `01` are `1`, and `True` is `true`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.environments.cells import (
    MISSING,
    NORMAL,
    SAFE,
    MissingCellError,
    cast,
    distinct_texts,
    keeps_digits,
    label,
    plain,
    spelled,
    without_missing,
)
from fairbandit.environments.csv_records import CsvFile
from fairbandit.errors import FairbanditError

BLOCK_ROWS = 1 << 16
"""The number of rows of a Parquet file that are read at once."""

LARGEST = 1e100
"""The largest magnitude of a number; its square, and sums of squares, stay finite."""

_DAMAGE = (pa.ArrowException, OSError, UnicodeError)
_TEXTUAL = (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_decimal)
_NUMERIC = (
    *(pa.types.is_string, pa.types.is_integer, pa.types.is_floating),
    *(pa.types.is_boolean, pa.types.is_null),
)


def is_readable(kind: Any) -> bool:
    """Whether numbers can be read from cells of an Arrow type."""
    return any(is_of_kind(kind) for is_of_kind in _NUMERIC)


def listed(items: Sequence[str], limit: int = 30) -> str:
    """The first `limit` items as text for a message, with the number of the others."""
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a table.

    Attributes:
        path: the file, for messages.
        start: how many rows stand before the block.
        batch: the rows.
        place: returns the place of a cell in words, given its offset in the block and its column;
            None to name the row.
        gaps: whether cells may be missing. They are NaN among numbers, and have the index −1 among
            texts. Otherwise a missing cell is an error.
    """

    path: Path
    start: int
    batch: Any
    place: Callable[[int, str], str] | None = None
    gaps: bool = False

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def error(self, column: str, offset: int | None, problem: str) -> FairbanditError:
        """The error for a cell, named by its line or row in the file, or for a whole column."""
        where = ""
        if offset is not None:
            row = f"row {self.start + offset + 1}"
            where = f", {self.place(offset, column) if self.place else row}"
        return FairbanditError(f"{self.path}, column {column!r}{where}: {problem}")

    def numbers(self, column: str, *, missing: bool = False) -> NDArray[np.float64]:
        """A column as finite numbers, one a row.

        Args:
            column: its name.
            missing: returns empty cells as NaN, and skips the check of the range.

        Raises:
            FairbanditError: a cell is text or empty, or its number is not finite, too large, or
                more precise than float64; the message names the cell.
        """
        cells = self._cells(column)
        if not is_readable(cells.type):
            raise self.error(column, None, f"expected numbers, got {cells.type}")
        if self.gaps:
            cells = without_missing(cells)
        numbers = cast(cells)
        if numbers is None:  # integers beyond 2⁵³, or texts with blanks, truth values and the like
            cells = plain(cells)
            numbers = cast(cells)
        if numbers is None:
            rows = range(len(cells))
            offset = bisect_left(rows, True, key=lambda row: cast(cells[: row + 1]) is None)
            text = cells[offset].as_py()
            problem = f"expected a number, got the text {text!r}"
            raise self._missing_or_wrong(column, offset, problem, text.strip().lower() in MISSING)
        values = numbers.to_numpy(zero_copy_only=False)
        if pa.types.is_string(cells.type):
            self._require_digits(column, cells, values)
        if not missing:
            present = np.where(np.isnan(values), 0.0, values) if self.gaps else values
            self.require_finite(column, present)
        return np.asarray(values, dtype=np.float64)

    def texts(
        self, column: str, valid: Collection[str] = ()
    ) -> tuple[list[str], NDArray[np.int64]]:
        """A column's distinct texts, without surrounding blanks, and the index of each row's text.

        The texts come in order of appearance, possibly with repetitions.

        Args:
            column: its name.
            valid: texts that are accepted although they are spellings of a missing value.

        Raises:
            FairbanditError: a cell holds a missing value, or the column has no text form.
        """
        cells = self._cells(column)
        try:
            encoded = cells.dictionary_encode()
            distinct = spelled(encoded.dictionary)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            problem = f"expected labels or codes, got {cells.type}"
            raise self.error(column, None, problem) from None
        lacking = [text.lower() in MISSING and text not in valid for text in distinct]
        places = pc.fill_null(encoded.indices, len(distinct)).to_numpy(zero_copy_only=False)
        absent = np.array([*lacking, True])[places]
        if self.gaps:
            places = np.where(absent, -1, places)
        elif absent.any():
            offset = int(absent.argmax())
            got = [*distinct, ""][places[offset]]
            problem = "stands for a missing value; a group or code must be called otherwise"
            empty = "the cell is empty; expected a value"
            problem = f"{got!r} {problem}" if got else empty
            raise self._missing_or_wrong(column, offset, problem, True)
        return distinct, np.asarray(places, dtype=np.int64)

    def labels(self, column: str) -> tuple[list[str], NDArray[np.int64]]:
        """As `texts`, with one spelling of each whole number: `1`, `1.0` and `01` are `1`."""
        texts, places = self.texts(column)
        return [label(text) for text in texts], places

    def distinct(self, column: str) -> tuple[Any, Any]:
        """The type of a column, and its distinct texts without missing values as an Arrow array.

        The texts are None if the cells have no text form, as lists have none.
        """
        cells = self._cells(column)
        try:
            return cells.type, distinct_texts(cells)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return cells.type, None

    def require_finite(self, column: str, values: NDArray[np.float64]) -> None:
        """Checks that no value is NaN, infinite or above `LARGEST`; the error names the first."""
        bad = ~(np.abs(values) <= LARGEST)
        if bad.any():
            offset = int(bad.argmax())
            value = values[offset]
            got = "an infinite number" if np.isinf(value) else f"{value:g}"
            problem = f"expected a number of at most {LARGEST:g}, got {got}"
            missing = bool(np.isnan(value))
            problem = "expected a number, got NaN or an empty cell" if missing else problem
            raise self._missing_or_wrong(column, offset, problem, missing)

    def _missing_or_wrong(
        self, column: str, offset: int, problem: str, missing: bool
    ) -> FairbanditError:
        """The error for a cell, which is a `MissingCellError` where the cell is missing."""
        error = self.error(column, offset, problem)
        return MissingCellError(str(error)) if missing else error

    def _cells(self, column: str) -> Any:
        cells = self.batch.column(self.batch.schema.get_field_index(column))
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        if any(is_of_kind(cells.type) for is_of_kind in _TEXTUAL):
            cells = pc.cast(cells, pa.string())
        try:
            cells.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self.error(column, None, f"the cells are damaged: {error}") from None
        return cells

    def _require_digits(self, column: str, texts: Any, values: NDArray[np.float64]) -> None:
        """Checks that no text loses digits as float64.

        A number of at most 15 significant digits loses none unless it is subnormal, and the
        shortest text of a value loses none either.
        """
        lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        size = np.abs(values)  # NaN where a cell is empty
        rows = np.flatnonzero(np.isfinite(size) & ((lengths > SAFE) | (size < NORMAL)))
        few, shortest = texts.take(pa.array(rows)), pc.cast(pa.array(values[rows]), pa.string())
        exact = pc.or_(pc.equal(few, shortest), pc.match_substring_regex(few, "^[-+]?[0.]+$"))
        for row in rows[~exact.to_numpy(zero_copy_only=False)].tolist():
            text, value = texts[row].as_py(), float(values[row])
            if not keeps_digits(text, value):
                problem = f"float64 cannot hold {text[:60]}, which would become {value!r}; write "
                raise self.error(column, row, f"{problem}at most {SAFE} significant digits")


class Source:
    """An open table file, which gives its column names and its rows in blocks.

    Args:
        path: a file that ends in .csv or .parquet.

    Raises:
        FairbanditError: the file is missing, empty, damaged or of another type, or two columns have
            one name.
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
        self._csv: CsvFile | None = None
        try:
            if ending == ".csv":
                self._csv = CsvFile(self.path)
            self.columns = self._csv.columns if self._csv else pq.read_schema(self.path).names
        except _DAMAGE as error:
            raise self._damaged(error) from error
        self._counts = Counter(self.columns)
        # names may be empty: spreadsheets leave empty columns behind
        self.require([name for name in self.columns if name])

    def require(self, columns: Sequence[str]) -> None:
        """Checks that the table has each of the columns once.

        Raises:
            FairbanditError: a column is missing, in which case the message lists the columns, or
                stands twice.
        """
        lacking = [repr(name) for name in dict.fromkeys(columns) if not self._counts[name]]
        if lacking:
            there = listed(list(map(repr, self.columns))) or "none"
            raise FairbanditError(f"{self.path} has no column {listed(lacking)}; it has {there}")
        twice = [repr(name) for name in dict.fromkeys(columns) if self._counts[name] > 1]
        if twice:
            raise FairbanditError(
                f"{self.path}: column {listed(twice)} stands more than once in the header; every "
                "name must be unique, so rename one of them in the file"
            )

    def blocks(self, columns: Sequence[str], *, gaps: bool = False) -> Iterator[Block]:
        """The rows of the table in blocks, with only the given columns.

        Args:
            columns: their names; repetitions do not matter.
            gaps: whether cells may be missing; see `Block`.

        Raises:
            FairbanditError: a column is missing, or the file is damaged; in a CSV file the message
                names the line.
        """
        columns = list(dict.fromkeys(columns))
        self.require(columns)
        start = 0
        try:
            for batch, place in self._csv.batches(columns) if self._csv else self._rows(columns):
                yield Block(self.path, start, batch, place, gaps)
                start += batch.num_rows
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def error(self, column: str, row: int, problem: str) -> FairbanditError:
        """The error for the cell that has `row` rows before it."""
        for block in self.blocks([column]):
            if row < block.start + len(block):
                return block.error(column, row - block.start, problem)
        raise FairbanditError(f"{self.path} changed while it was read; run again")

    def _rows(self, columns: list[str]) -> Iterator[tuple[Any, None]]:
        # without read-ahead, whose threads could outlive a process that ends at once
        with pq.ParquetFile(
            self.path, page_checksum_verification=True, pre_buffer=False, buffer_size=1 << 20
        ) as file:
            for batch in file.iter_batches(BLOCK_ROWS, columns=columns, use_threads=False):
                if batch.num_rows:
                    yield batch, None

    def _damaged(self, error: Exception) -> FairbanditError:
        kind = "CSV (UTF-8, commas)" if self._csv else "Parquet"
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        return FairbanditError(
            f"{self.path} is not a readable {kind} file; it may be truncated: {reason}"
        )
