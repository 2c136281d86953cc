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

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.environments.csv_records import CsvFile
from fairbandit.errors import FairbanditError

BLOCK_ROWS = 1 << 16
"""The number of rows of a Parquet file that are read at once."""

LARGEST = 1e100
"""The largest magnitude of a number; its square, and sums of squares, stay finite."""

MISSING = frozenset(
    {
        *("", "na", "n/a", "<na>", "nan", "-nan", "nat", "null", "none"),
        *("#na", "#n/a", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
    }
)
"""The texts that pandas and Arrow read as a missing value, in lower case."""

_INTEGER = re.compile(r"([-+]?)0*([0-9]+)(?:\.0*)?")
_NORMAL = float(np.finfo(np.float64).tiny)
_SAFE = 15  # so many significant digits survive in every normal float64
_DAMAGE = (pa.ArrowException, OSError, UnicodeError)
_TEXTUAL = (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_decimal)
_NUMERIC = (
    *(pa.types.is_string, pa.types.is_integer, pa.types.is_floating),
    *(pa.types.is_boolean, pa.types.is_null),
)


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
    """

    path: Path
    start: int
    batch: Any
    place: Callable[[int, str], str] | None = None

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
        if not any(is_of_kind(cells.type) for is_of_kind in _NUMERIC):
            raise self.error(column, None, f"expected numbers, got {cells.type}")
        numbers = _cast(cells)
        if numbers is None:  # integers beyond 2⁵³, or texts with blanks, truth values and the like
            cells = _plain(cells)
            numbers = _cast(cells)
        if numbers is None:
            rows = range(len(cells))
            offset = bisect_left(rows, True, key=lambda row: _cast(cells[: row + 1]) is None)
            problem = f"expected a number, got the text {cells[offset].as_py()!r}"
            raise self.error(column, offset, problem)
        values = numbers.to_numpy(zero_copy_only=False)
        if pa.types.is_string(cells.type):
            self._require_digits(column, cells, values)
        if not missing:
            self.require_finite(column, values)
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
            distinct = _texts(encoded.dictionary)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            problem = f"expected labels or codes, got {cells.type}"
            raise self.error(column, None, problem) from None
        lacking = [text.lower() in MISSING and text not in valid for text in distinct]
        places = pc.fill_null(encoded.indices, len(distinct)).to_numpy(zero_copy_only=False)
        absent = np.array([*lacking, True])[places]
        if absent.any():
            offset = int(absent.argmax())
            got = [*distinct, ""][places[offset]]
            problem = "stands for a missing value; a group or code must be called otherwise"
            empty = "the cell is empty; expected a value"
            raise self.error(column, offset, f"{got!r} {problem}" if got else empty)
        return distinct, np.asarray(places, dtype=np.int64)

    def labels(self, column: str) -> tuple[list[str], NDArray[np.int64]]:
        """As `texts`, with one spelling of each whole number: `1`, `1.0` and `01` are `1`."""
        texts, places = self.texts(column)
        return [_label(text) for text in texts], places

    def require_finite(self, column: str, values: NDArray[np.float64]) -> None:
        """Checks that no value is NaN, infinite or above `LARGEST`; the error names the first."""
        bad = ~(np.abs(values) <= LARGEST)
        if bad.any():
            offset = int(bad.argmax())
            value = values[offset]
            got = "an infinite number" if np.isinf(value) else f"{value:g}"
            problem = f"expected a number of at most {LARGEST:g}, got {got}"
            nan = "expected a number, got NaN or an empty cell"
            raise self.error(column, offset, nan if np.isnan(value) else problem)

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
        rows = np.flatnonzero(np.isfinite(size) & ((lengths > _SAFE) | (size < _NORMAL)))
        few, shortest = texts.take(pa.array(rows)), pc.cast(pa.array(values[rows]), pa.string())
        exact = pc.or_(pc.equal(few, shortest), pc.match_substring_regex(few, "^[-+]?[0.]+$"))
        for row in rows[~exact.to_numpy(zero_copy_only=False)].tolist():
            text, value = texts[row].as_py(), float(values[row])
            if not _keeps_digits(text, value):
                problem = f"float64 cannot hold {text[:60]}, which would become {value!r}; write "
                raise self.error(column, row, f"{problem}at most {_SAFE} significant digits")


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
                "name must be unique"
            )

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The rows of the table in blocks, with only the given columns.

        Raises:
            FairbanditError: a column is missing, or the file is damaged; in a CSV file the message
                names the line.
        """
        columns = list(dict.fromkeys(columns))
        self.require(columns)
        start = 0
        try:
            for batch, place in self._csv.batches(columns) if self._csv else self._rows(columns):
                yield Block(self.path, start, batch, place)
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


def _cast(cells: Any) -> Any:
    """The cells as float64, or None if one is not a number or an integer beyond 2⁵³."""
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return None


def _plain(cells: Any) -> Any:
    """Texts without surrounding blanks, where empty ones are null and truth values are 1 and 0."""
    texts = pc.utf8_trim_whitespace(pc.cast(cells, pa.string()))
    lowered = pc.utf8_lower(texts)
    for spelling, value in (("", None), ("true", "1"), ("false", "0")):
        texts = pc.if_else(pc.equal(lowered, spelling), pa.scalar(value, pa.string()), texts)
    return texts


def _keeps_digits(text: str, value: float) -> bool:
    """Whether a value, written with as many digits as the text, is the text again.

    So is the shortest form of a value, which may differ in its last digit where the value lies half
    way between two numbers of as many digits.

    >>> _keeps_digits("0.1", 0.1), _keeps_digits("9007199254740993", 9007199254740993.0)
    (True, False)
    """
    if value == 0:
        return not re.search("[1-9]", re.split("[eE]", text)[0])
    written = Decimal(text)
    _, digits, _ = written.as_tuple()
    shortest = Decimal(repr(value)).as_tuple() == written.as_tuple()
    return shortest or Decimal(f"{value:.{len(digits) - 1}e}") == written


def _texts(distinct: Any) -> list[str]:
    """Distinct cells as texts, with floats as Python writes them and truth values in lower case."""
    if pa.types.is_floating(distinct.type):
        texts = [str(value) for value in distinct.to_numpy(zero_copy_only=False)]
    else:
        texts = [(text or "").strip() for text in pc.cast(distinct, pa.string()).to_pylist()]
    return [canonical(text) for text in texts]


def canonical(text: str) -> str:
    """The text with truth values in lower case, so that `True` and `TRUE` become `true`."""
    lowered = text.lower()
    return lowered if lowered in ("true", "false") else text


def _label(text: str) -> str:
    if number := _INTEGER.fullmatch(text):
        return f"-{number[2]}" if number[1] == "-" and number[2] != "0" else number[2]
    return text
