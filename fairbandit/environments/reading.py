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
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.environments.csv_records import CsvFile, Piece
from fairbandit.errors import FairbanditError

BLOCK_ROWS = 1 << 16
"""Rows of a Parquet file read at once."""

LARGEST = 1e100
"""The largest magnitude of a number; its square, and sums of squares, stay finite."""

MISSING = frozenset(
    {
        *("", "na", "n/a", "<na>", "nan", "-nan", "nat", "null", "none"),
        *("#na", "#n/a", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
    }
)
"""What pandas and Arrow read as a missing value, in lower case."""

_INTEGER = re.compile(r"([-+]?)0*([0-9]+)(?:\.0*)?")
_NORMAL = float(np.finfo(np.float64).tiny)
_EXACT = 1 << 53  # every integer up to here is a float64
_SAFE = 15  # so many significant digits survive in every normal float64


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
        place: where a cell stands, from its offset in the block and its column; None for the row.
    """

    def __init__(
        self,
        path: Path,
        start: int,
        batch: Any,
        place: Callable[[int, str], str] | None = None,
    ) -> None:
        self.path, self.start, self.batch = path, start, batch
        self._place = place

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def error(self, column: str, offset: int, problem: str) -> FairbanditError:
        """The error for one cell, named by its column and its line or row in the file."""
        row = f"row {self.start + offset + 1}"
        where = self._place(offset, column) if self._place else row
        return FairbanditError(f"{self.path}, column {column!r}, {where}: {problem}")

    def numbers(self, column: str, *, missing: bool = False) -> NDArray[np.float64]:
        """A column as finite numbers.

        Args:
            column: its name.
            missing: lets empty cells through, as NaN, and leaves their range unchecked.

        Returns:
            float64, one a row.

        Raises:
            FairbanditError: text, an empty cell, or a number that is not finite, too large or
                that float64 cannot hold, with its place.
        """
        cells = self._cells(column)
        kind = cells.type
        if pa.types.is_string(kind):
            cells = self._parsed(column, cells)
        elif pa.types.is_integer(kind):
            self._require_exact(column, cells)
        elif not (pa.types.is_floating(kind) or pa.types.is_boolean(kind) or kind == pa.null()):
            raise FairbanditError(f"{self.path}, column {column!r}: expected numbers, got {kind}")
        values = pc.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if not missing:
            self.require_finite(column, values)
        return np.asarray(values, dtype=np.float64)

    def texts(
        self, column: str, valid: Collection[str] = ()
    ) -> tuple[list[str], NDArray[np.int64]]:
        """A column's distinct texts, stripped of surrounding blanks, and each row's among them.

        Args:
            column: its name.
            valid: texts that are meant even if they are spellings of a missing value.

        Returns:
            The texts in order of appearance (one may stand twice), and int64 places, one a row.

        Raises:
            FairbanditError: a missing value, with its place, or cells that have no text form.
        """
        cells = self._cells(column)
        try:
            encoded = cells.dictionary_encode()
            distinct = _texts(encoded.dictionary)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise FairbanditError(
                f"{self.path}, column {column!r}: expected labels or codes, got {cells.type}"
            ) from None
        lacking = [text.lower() in MISSING and text not in valid for text in distinct]
        places = pc.fill_null(encoded.indices, len(distinct)).to_numpy(zero_copy_only=False)
        absent = np.array([*lacking, True])[places]
        if absent.any():
            offset = int(absent.argmax())
            got = [*distinct, ""][places[offset]]
            raise self.error(
                column,
                offset,
                f"{got!r} stands for a missing value; a group or code must be called otherwise"
                if got
                else "the cell is empty; expected a value",
            )
        return distinct, np.asarray(places, dtype=np.int64)

    def labels(self, column: str) -> tuple[list[str], NDArray[np.int64]]:
        """A column's distinct labels, and each row's place among them.

        Whole numbers are written alike in every file: `1`, `1.0` and `01` are the label `1`.

        Returns:
            The labels in order of appearance (one may stand twice), and int64 places, one a row.
        """
        texts, places = self.texts(column)
        return [_label(text) for text in texts], places

    def require_finite(self, column: str, values: NDArray[np.float64]) -> None:
        """Raises the error for the first value that is NaN, infinite or above `LARGEST`."""
        bad = ~(np.abs(values) <= LARGEST)
        if bad.any():
            offset = int(bad.argmax())
            value = float(values[offset])
            got = "NaN or an empty cell" if np.isnan(value) else f"{value:g}"
            got = "an infinite number" if np.isinf(value) else got
            expected = "a number" if np.isnan(value) else f"a number of at most {LARGEST:g}"
            raise self.error(column, offset, f"expected {expected}, got {got}")

    def _cells(self, column: str) -> Any:
        cells = self.batch.column(self.batch.schema.get_field_index(column))
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        kind = cells.type
        if (
            pa.types.is_large_string(kind)
            or pa.types.is_string_view(kind)
            or pa.types.is_decimal(kind)  # read like the text of a CSV file
        ):
            cells = pc.cast(cells, pa.string())
        try:
            cells.validate(full=True)
        except pa.ArrowInvalid as error:
            raise FairbanditError(
                f"{self.path}, column {column!r}: the cells are damaged: {error}"
            ) from None
        return cells

    def _require_exact(self, column: str, cells: Any) -> None:
        """Checks that float64 holds each of the integers."""
        if cells.type.bit_width < 64:
            return
        bound = pa.scalar(_EXACT, cells.type)
        large = pc.greater(cells, bound)
        if pa.types.is_signed_integer(cells.type):
            large = pc.or_(large, pc.less(cells, pa.scalar(-_EXACT, cells.type)))
        for offset in np.flatnonzero(pc.fill_null(large, False).to_numpy(zero_copy_only=False)):
            value = cells[int(offset)].as_py()
            if int(float(value)) != value:
                raise self._inexact(column, int(offset), str(value), float(value))

    def _parsed(self, column: str, cells: Any) -> Any:
        """Texts as numbers."""
        texts, values = cells, _cast(cells)
        if values is None:
            texts = _plain(cells)
            values = _cast(texts)
        if values is None:
            offset = _first_refused(texts)
            problem = f"expected a number, got the text {texts[offset].as_py()!r}"
            raise self.error(column, offset, problem)
        for offset in _doubtful(texts, values):
            text, value = texts[int(offset)].as_py(), values[int(offset)].as_py()
            if not _keeps_digits(text, value):
                raise self._inexact(column, int(offset), text, value)
        return values

    def _inexact(self, column: str, offset: int, text: str, value: float) -> FairbanditError:
        return self.error(
            column,
            offset,
            f"float64 cannot hold {text[:60]}, which would become {value!r}; write at most "
            f"{_SAFE} significant digits",
        )


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
        self._csv: CsvFile | None = None
        try:
            if ending == ".csv":
                self._csv = CsvFile(self.path)
            self.columns = self._csv.columns if self._csv else self._parquet_header()
        except _DAMAGE as error:
            raise self._damaged(error) from error
        self._counts = Counter(self.columns)
        # names may be empty: spreadsheets leave empty columns behind
        self._require_unique([name for name in self._counts if name])

    def require(self, columns: Sequence[str]) -> None:
        """Checks that the table has the columns.

        Raises:
            FairbanditError: a column is lacking; the message lists what there is.
        """
        lacking = [name for name in dict.fromkeys(columns) if name not in self._counts]
        if lacking:
            raise FairbanditError(
                f"{self.path} has no column {listed([repr(name) for name in lacking])}; it has "
                f"{listed([repr(name) for name in self.columns]) or 'none'}"
            )
        self._require_unique(columns)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The table's rows, with the given columns alone.

        Raises:
            FairbanditError: a column is lacking, or the file is damaged (with the line, in a CSV).
        """
        columns = list(dict.fromkeys(columns))
        self.require(columns)
        try:
            yield from (
                self._csv_blocks(self._csv, columns) if self._csv else self._parquet_blocks(columns)
            )
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def error(self, column: str, row: int, problem: str) -> FairbanditError:
        """The error for a cell, found by the number of rows before it."""
        for block in self.blocks([column]):
            if row < block.start + len(block):
                return block.error(column, row - block.start, problem)
        raise FairbanditError(f"{self.path} changed while it was read; run again")

    def _require_unique(self, columns: Sequence[str]) -> None:
        twice = [name for name in dict.fromkeys(columns) if self._counts[name] > 1]
        if twice:
            raise FairbanditError(
                f"{self.path}: column {listed([repr(name) for name in twice])} stands "
                "more than once in the header; every name must be unique"
            )

    def _parquet_header(self) -> list[str]:
        with pq.ParquetFile(self.path) as file:
            return list(file.schema_arrow.names)

    def _parquet_blocks(self, columns: list[str]) -> Iterator[Block]:
        start = 0
        with pq.ParquetFile(
            self.path, page_checksum_verification=True, pre_buffer=False, buffer_size=1 << 20
        ) as file:
            for batch in file.iter_batches(BLOCK_ROWS, columns=columns, use_threads=False):
                if batch.num_rows:
                    yield Block(self.path, start, batch)
                start += batch.num_rows

    def _csv_blocks(self, file: CsvFile, columns: list[str]) -> Iterator[Block]:
        start = 0
        numbers = {name: number for number, name in enumerate(self.columns)}
        places = {name: numbers[name] for name in columns}
        for piece in file.pieces():

            def place(offset: int, column: str, piece: Piece = piece) -> str:
                return f"line {piece.line_of(piece.cells(offset)[places[column]][0])}"

            try:
                batch = self._parsed_piece(piece, columns)
            except pa.ArrowInvalid:
                raise _broken(file, piece, places) from None
            yield Block(self.path, start, batch, place)
            start += batch.num_rows

    def _parsed_piece(self, piece: Piece, columns: list[str]) -> Any:
        table = pa_csv.read_csv(
            pa.BufferReader(piece.text),
            read_options=pa_csv.ReadOptions(
                use_threads=False, block_size=len(piece.text) + 1, column_names=self.columns
            ),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            # as text, so that this module says what is wrong with a cell
            convert_options=pa_csv.ConvertOptions(
                include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
            ),
        )
        (batch,) = table.combine_chunks().to_batches()
        return batch

    def _damaged(self, error: Exception) -> FairbanditError:
        kind = "CSV (UTF-8, commas)" if self._csv else "Parquet"
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        return FairbanditError(
            f"{self.path} is not a readable {kind} file; it may be truncated: {reason}"
        )


_DAMAGE = (pa.ArrowException, OSError, UnicodeError)


def _broken(file: CsvFile, piece: Piece, columns: dict[str, int]) -> FairbanditError:
    """What is wrong with a piece that Arrow refuses: the number of cells, or an encoding."""
    width = len(file.columns)
    ragged = piece.ragged_row(width)
    if ragged is not None:
        row, got = ragged
        start, stop = (int(edges[row]) for edges in piece.rows)
        text = piece.text[start:stop][:60].decode("utf-8", "replace")
        return FairbanditError(
            f"{file.path}, line {piece.line_of(start)}: expected {width} columns, got {got} "
            f"({text!r}); the file may be truncated"
        )
    for row in range(len(piece.rows[0])):
        cells = piece.cells(row)
        for column in columns.values():
            start, stop = cells[column]
            try:
                piece.text[start:stop].decode("utf-8")
            except UnicodeError:
                return file.error(piece, start, "the cell is not UTF-8")
    return FairbanditError(f"{file.path}, line {piece.line}: the CSV reader refuses the rows below")


def _cast(texts: Any) -> Any:
    """The texts as float64, or None if one of them is no number."""
    try:
        return pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None


def _plain(texts: Any) -> Any:
    """Texts without surrounding blanks, empty ones as null, truth values as 1 and 0."""
    texts = pc.utf8_trim_whitespace(texts)
    lowered = pc.utf8_lower(texts)
    for spelling, value in (("", None), ("true", "1"), ("false", "0")):
        texts = pc.if_else(pc.equal(lowered, spelling), pa.scalar(value, pa.string()), texts)
    return texts


def _first_refused(texts: Any) -> int:
    """The first text that is no number, by bisection: there is one."""
    start, stop = 0, len(texts)
    while stop - start > 1:
        middle = (start + stop) // 2
        if _cast(texts[start:middle]) is None:
            stop = middle
        else:
            start = middle
    return start


def _doubtful(texts: Any, values: Any) -> NDArray[np.int64]:
    """Where a number may lose digits.

    At most 15 significant digits survive in every normal float64, and a text survives that is the
    shortest one to read as its value.
    """
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    numbers = values.to_numpy(zero_copy_only=False)  # NaN where a cell is empty
    size = np.abs(numbers)
    rows = np.flatnonzero(np.isfinite(size) & ((lengths > _SAFE) | (size < _NORMAL)))
    if not len(rows):
        return rows
    few, shortest = texts.take(rows), pc.cast(values.take(rows), pa.string())
    plain = pc.or_(pc.equal(few, shortest), pc.match_substring_regex(few, "^[-+]?[0.]+$"))
    return rows[~plain.to_numpy(zero_copy_only=False)]


def _keeps_digits(text: str, value: float) -> bool:
    """Whether a value, written with as many digits as the text, is the text again.

    So is the shortest form of a value, which may differ in its last digit where the value lies half
    way between two numbers of as many digits.

    >>> _keeps_digits("0.1", 0.1), _keeps_digits("9007199254740993", 9007199254740993.0)
    (True, False)
    """
    mantissa = re.split("[eE]", text)[0]
    if value == 0:
        return not re.search("[1-9]", mantissa)
    written = Decimal(text)
    digits = len(written.as_tuple().digits)
    shortest = Decimal(repr(value)).as_tuple() == written.as_tuple()
    return shortest or Decimal(f"{value:.{digits - 1}e}") == written


def _texts(distinct: Any) -> list[str]:
    """Distinct cells as texts: floats as Python writes them, truth values in lower case."""
    if pa.types.is_floating(distinct.type):
        texts = [str(value) for value in distinct.to_numpy(zero_copy_only=False)]
    else:
        texts = [(text or "").strip() for text in pc.cast(distinct, pa.string()).to_pylist()]
    return [canonical(text) for text in texts]


def canonical(text: str) -> str:
    """A text as all files are taken to write it: `True` and `TRUE` are `true`."""
    lowered = text.lower()
    return lowered if lowered in ("true", "false") else text


def _label(text: str) -> str:
    number = _INTEGER.fullmatch(text)
    if number is None:
        return text
    sign, digits = number.groups()
    return f"-{digits}" if sign == "-" and digits != "0" else digits
