"""Splits CSV files into pieces of whole records, and finds the line of each cell.

Files must follow RFC 4180: quotation marks enclose a cell or are doubled inside a quoted cell, and
stand nowhere else. A byte is therefore quoted if and only if the number of quotation marks before
it is odd, which NumPy computes for a whole piece at once. The last record must end with a line end
too, because a file without one may have been truncated inside a cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError

BLOCK_BYTES = 1 << 22
"""The number of bytes of a file that are read at once."""

LARGEST_RECORD = 1 << 26
"""The most bytes of a record; otherwise a mark that is never closed would fill the memory."""

_BOM = b"\xef\xbb\xbf"
_LF, _CR, _COMMA, _QUOTE = b'\n\r,"'


@dataclass(frozen=True)
class Piece:
    """Consecutive records of a CSV file.

    Attributes:
        path: the file, for messages.
        line: the line of the file on which the piece begins, from 1.
        text: its bytes.
    """

    path: Path
    line: int
    text: bytes

    @cached_property
    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and last positions of the records that are not blank, without line ends."""
        stops = self._outside(self._line_ends)
        starts = np.concatenate([[0], stops[:-1] + 1]) if len(stops) else stops
        codes = self._codes
        stops = stops - ((codes[stops] == _LF) & (stops > starts) & (codes[stops - 1] == _CR))
        filled = stops > starts
        return starts[filled], stops[filled]

    @property
    def lines(self) -> int:
        """The number of lines, including those inside quoted cells."""
        return len(self._line_ends)

    def cells(self, row: int) -> list[tuple[int, int]]:
        """The positions in bytes at which each cell of a row begins and ends."""
        start, stop = (int(edges[row]) for edges in self.rows)
        commas = self._commas
        inside = commas[np.searchsorted(commas, start) : np.searchsorted(commas, stop)].tolist()
        return list(zip([start, *(comma + 1 for comma in inside)], [*inside, stop], strict=True))

    def end_of_line(self, position: int) -> int:
        """The position at which the line after the one with this byte begins."""
        return int(self._line_ends[np.searchsorted(self._line_ends, position)]) + 1

    def line_of(self, position: int) -> int:
        """The line of the file on which a byte of the piece stands."""
        return self.line + int(np.searchsorted(self._line_ends, position))

    def column_of(self, position: int) -> int:
        """The number of the column in which a byte of the piece stands, from 0."""
        stops = self._outside(self._line_ends)
        before = stops[stops < position]
        start = before[-1] + 1 if len(before) else 0
        return int(((self._commas >= start) & (self._commas < position)).sum())

    def stray_mark(self) -> int | None:
        """The first quotation mark that neither encloses a cell nor is doubled inside one."""
        marks = self._marks
        if not len(marks):
            return None
        codes = np.concatenate([[_LF], self._codes, [_LF]])
        before, after = codes[marks], codes[marks + 2]
        edges = np.array([_COMMA, _CR, _LF, _QUOTE])
        opens = np.arange(len(marks)) % 2 == 0
        stray = ~np.isin(np.where(opens, before, after), edges)
        return int(marks[stray.argmax()]) if stray.any() else None

    def open_mark(self) -> int | None:
        """The quotation mark that is opened and never closed, if there is one."""
        return int(self._marks[-1]) if len(self._marks) % 2 else None

    def ragged_row(self, width: int) -> tuple[int, int] | None:
        """The first row with another number of cells than `width`, and that number."""
        starts, stops = self.rows
        widths = np.searchsorted(self._commas, stops) - np.searchsorted(self._commas, starts) + 1
        ragged = widths != width
        row = int(ragged.argmax()) if len(ragged) else 0
        return (row, int(widths[row])) if ragged.any() else None

    @property
    def _codes(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.text, np.uint8)

    @cached_property
    def _line_ends(self) -> NDArray[np.int64]:
        return _line_ends(self.text)

    @cached_property
    def _marks(self) -> NDArray[np.int64]:
        return _marks(self.text)

    @cached_property
    def _commas(self) -> NDArray[np.int64]:
        return self._outside(np.flatnonzero(self._codes == _COMMA))

    def _outside(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those positions that are not quoted."""
        return positions[np.searchsorted(self._marks, positions) % 2 == 0]


class CsvFile:
    """A CSV file, which gives the names of its columns and its rows in pieces.

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

    def pieces(self) -> Iterator[Piece]:
        """The rows below the header.

        Raises:
            FairbanditError: see the class.
        """
        header = True
        for piece in self._pieces():
            rest = piece
            if header:
                starts, stops = piece.rows
                if not len(starts):
                    continue
                end = piece.end_of_line(int(stops[0]))
                rest, header = Piece(self.path, piece.line_of(end), piece.text[end:]), False
            if len(rest.rows[0]):
                yield rest

    def error(self, piece: Piece, position: int, problem: str) -> FairbanditError:
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
                    piece = Piece(self.path, line, b"".join([*waiting, data[:end]]))
                    if not self.columns and len(piece.rows[0]):
                        self.columns = _names(piece)
                    yield self._checked(piece)
                    line, waiting = line + piece.lines, []
                waiting.append(data[end:])
                if sum(map(len, waiting)) > LARGEST_RECORD:
                    break
        rest = b"".join(waiting)
        if rest:
            raise self._unfinished(self._checked(Piece(self.path, line, rest)))

    def _checked(self, piece: Piece) -> Piece:
        stray = piece.stray_mark()
        if stray is not None:
            raise self.error(
                piece,
                stray,
                "a quotation mark stands inside a cell; a cell that holds one must be enclosed in "
                "quotation marks, with the mark doubled",
            )
        return piece

    def _unfinished(self, piece: Piece) -> FairbanditError:
        opened = piece.open_mark()
        if opened is not None:
            problem = "the quotation mark that begins this cell is never closed"
            return self.error(piece, opened, f"{problem}; the file may be truncated")
        if len(piece.text) > LARGEST_RECORD:
            problem = f"the line is longer than {LARGEST_RECORD >> 20} MiB"
            return FairbanditError(f"{self.path}, line {piece.line}: {problem}")
        return self.error(
            piece,
            len(piece.text),
            "the file ends without a line end, so this cell may be cut short (12 of 123, for "
            "one); if the file is whole, end its last line",
        )


def _names(piece: Piece) -> list[str]:
    """The cells of the first row. A name that is not UTF-8 matters only if it is asked for."""
    names = [piece.text[start:stop].decode("utf-8", "replace") for start, stop in piece.cells(0)]
    return [name[1:-1].replace('""', '"') if name.startswith('"') else name for name in names]


def _read(file: BinaryIO) -> bytes:
    """The next bytes of a file, extended so that they do not end inside a line end."""
    data = file.read(BLOCK_BYTES)
    while data.endswith(b"\r") and (more := file.read(1)):
        data += more
    return data


def _end_of_records(data: bytes, quoted: bool) -> int:
    """The position after the last whole record; `quoted` if the data begin inside a quoted cell."""
    ends = _line_ends(data)
    outside = ends[(np.searchsorted(_marks(data), ends) + quoted) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def _line_ends(text: bytes) -> NDArray[np.int64]:
    r"""The last byte of every line end, which is \n, \r\n or \r."""
    codes = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(codes == _LF)
    if b"\r" not in text:
        return ends
    returns = np.flatnonzero(codes == _CR)
    alone = np.append(codes, _CR)[returns + 1] != _LF
    return np.sort(np.concatenate([ends, returns[alone]]))


def _marks(text: bytes) -> NDArray[np.int64]:
    return np.flatnonzero(np.frombuffer(text, np.uint8) == _QUOTE)
