"""Splits CSV files into pieces of whole records, and finds the line of a cell.

Files must follow RFC 4180: quotation marks enclose a cell or are doubled inside a quoted cell, and
stand nowhere else. A byte is therefore quoted if and only if the number of quotation marks before
it is odd, which NumPy computes for a whole piece at once. The last record must end with a line end
too, because a file without one may have been truncated inside a cell. Arrow splits the records into
cells; here cells are found only for the header and for messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from fairbandit.errors import FairbanditError

BLOCK_BYTES = 1 << 22
"""The number of bytes of a file that are read at once."""

LARGEST_RECORD = 1 << 26
"""The most bytes of a record; otherwise a mark that is never closed would fill the memory."""

_BOM = b"\xef\xbb\xbf"
_LF, _CR, _COMMA, _QUOTE = b'\n\r,"'
_CELL = re.compile(rb'((?:"[^"]*")+|[^,\r\n]*)(,|\r\n|\r|\n|\Z)')
_QUOTED = re.compile(rb'"[^"]*"?')


@dataclass(frozen=True)
class Piece:
    """Consecutive records of a CSV file.

    Attributes:
        line: the line of the file on which the piece begins, from 1.
        text: its bytes.
    """

    line: int
    text: bytes

    def records(self) -> Iterator[list[tuple[int, int]]]:
        """The positions in bytes at which each cell of a record begins and ends.

        Blank lines are no records.
        """
        cells = []
        for cell in _CELL.finditer(self.text):
            cells.append(cell.span(1))
            if cell[2] != b",":
                if cells[-1][1] > cells[0][0]:
                    yield cells
                cells = []

    def line_of(self, position: int) -> int:
        """The line of the file on which a byte of the piece stands."""
        feeds, returns, both = (
            self.text.count(end, 0, position) for end in (b"\n", b"\r", b"\r\n")
        )
        return self.line + feeds + returns - both

    def column_of(self, position: int) -> int:
        """The number of the column in which a byte of the piece stands, from 0."""
        before = self.text[_end_of_records(self.text[:position]) : position]
        return _QUOTED.sub(b"", before).count(b",")

    def stray_mark(self) -> int | None:
        """The first quotation mark that neither encloses a cell nor is doubled inside one."""
        codes = np.frombuffer(b"\n%b\n" % self.text, np.uint8)
        marks = np.flatnonzero(codes == _QUOTE)
        outer = codes[marks - np.resize([1, -1], len(marks))]  # before one that opens
        stray = marks[~np.isin(outer, [_COMMA, _CR, _LF, _QUOTE])]
        return int(stray[0]) - 1 if len(stray) else None


class CsvFile:
    """A CSV file, which gives the names of its columns and its rows in batches.

    Args:
        path: the file, in UTF-8, with or without a byte order mark.

    Attributes:
        columns: the cells of the first record that is not a blank line.

    Raises:
        FairbanditError: a quotation mark out of place or never closed, or a last line without its
            line end, with the line and column.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = []
        for _ in self._pieces():
            if self.columns:
                break

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, partial[str]]]:
        """The rows below the header, in record batches of texts with only the given columns.

        Each comes with a function of a row's offset and a column, which returns the line of the
        cell in words. A row with another number of cells than the header, or a cell that is not
        UTF-8, is an error that names the line.
        """
        below = False
        for piece in self._pieces():
            if not below:
                header = next(piece.records(), None)
                if header is None:
                    continue
                end = header[-1][1]  # its line end stays, as a blank line
                piece, below = Piece(piece.line_of(end), piece.text[end:]), True
            if piece.text.strip(b"\r\n"):
                yield self._parsed(piece, columns), partial(self._place, piece)

    def _parsed(self, piece: Piece, columns: Sequence[str]) -> Any:
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(piece.text),
                read_options=pa_csv.ReadOptions(
                    use_threads=False, block_size=len(piece.text) + 1, column_names=self.columns
                ),
                parse_options=pa_csv.ParseOptions(newlines_in_values=True),
                # as text, so that the message of a bad cell is ours
                convert_options=pa_csv.ConvertOptions(
                    include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
                ),
            )
        except pa.ArrowInvalid:
            raise self._broken(piece, columns) from None
        (batch,) = table.combine_chunks().to_batches()
        return batch

    def _broken(self, piece: Piece, columns: Sequence[str]) -> FairbanditError:
        """The error for a piece that Arrow refuses: a wrong number of cells or a wrong encoding."""
        numbers = dict(zip(self.columns, range(len(self.columns)), strict=True))
        for cells in piece.records():
            start = cells[0][0]
            if len(cells) != len(self.columns):
                text = piece.text[start : cells[-1][1]][:60].decode("utf-8", "replace")
                return FairbanditError(
                    f"{self.path}, line {piece.line_of(start)}: expected {len(self.columns)} "
                    f"columns, got {len(cells)} ({text!r}); the file may be truncated"
                )
            for name in columns:
                start, stop = cells[numbers[name]]
                try:
                    piece.text[start:stop].decode("utf-8")
                except UnicodeError:
                    return self._error(piece, start, "the cell is not UTF-8")
        return FairbanditError(
            f"{self.path}, line {piece.line}: the CSV reader refuses the rows below"
        )

    def _place(self, piece: Piece, offset: int, column: str) -> str:
        cells = next(islice(piece.records(), offset, None))
        return f"line {piece.line_of(cells[self.columns.index(column)][0])}"

    def _error(self, piece: Piece, position: int, problem: str) -> FairbanditError:
        """The error for the cell that holds a byte of a piece, named by its line and column."""
        column = piece.column_of(position)
        known = column < len(self.columns)
        name = f"column {self.columns[column]!r}, " if known else ""
        return FairbanditError(f"{self.path}, {name}line {piece.line_of(position)}: {problem}")

    def _pieces(self) -> Iterator[Piece]:
        waiting: list[bytes] = []
        line, quoted = 1, False
        with self.path.open("rb") as file:
            if file.read(len(_BOM)) != _BOM:
                file.seek(0)
            while data := _read(file):
                end = _end_of_records(data, quoted)
                quoted ^= data.count(b'"') % 2 == 1
                if end:
                    piece = Piece(line, b"".join([*waiting, data[:end]]))
                    self.columns = self.columns or _names(piece)
                    yield self._checked(piece)
                    line, waiting = piece.line_of(len(piece.text)), []
                waiting.append(data[end:])
                if sum(map(len, waiting)) > LARGEST_RECORD:
                    break
        if rest := b"".join(waiting):
            raise self._unfinished(self._checked(Piece(line, rest)), quoted)

    def _checked(self, piece: Piece) -> Piece:
        stray = piece.stray_mark()
        if stray is not None:
            raise self._error(
                piece,
                stray,
                "a quotation mark stands inside a cell; a cell that holds one must be enclosed in "
                "quotation marks, with the mark doubled",
            )
        return piece

    def _unfinished(self, piece: Piece, quoted: bool) -> FairbanditError:
        if quoted:
            problem = "the quotation mark that begins this cell is never closed"
            opened = piece.text.rindex(b'"')
            return self._error(piece, opened, f"{problem}; the file may be truncated")
        if len(piece.text) > LARGEST_RECORD:
            problem = f"the line is longer than {LARGEST_RECORD >> 20} MiB"
            return FairbanditError(f"{self.path}, line {piece.line}: {problem}")
        return self._error(
            piece,
            len(piece.text),
            "the file ends without a line end, so this cell may be cut short (12 of 123, for "
            "one); if the file is whole, end its last line",
        )


def _names(piece: Piece) -> list[str]:
    """The cells of the first row. A name that is not UTF-8 matters only if it is asked for."""
    header = next(piece.records(), [])
    names = [piece.text[start:stop].decode("utf-8", "replace") for start, stop in header]
    return [name[1:-1].replace('""', '"') if name.startswith('"') else name for name in names]


def _read(file: BinaryIO) -> bytes:
    """The next bytes of a file, extended so that they do not end inside a line end."""
    data = file.read(BLOCK_BYTES)
    while data.endswith(b"\r") and (more := file.read(1)):
        data += more
    return data


def _end_of_records(data: bytes, quoted: bool = False) -> int:
    """The position after the last whole record; `quoted` if the data begin inside a quoted cell."""
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero((codes == _LF) | (codes == _CR))
    marks = np.flatnonzero(codes == _QUOTE)
    outside = ends[(np.searchsorted(marks, ends) + quoted) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0
