"""Memory that grows, and memory that is used again."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

PIECE = 256
"""Rows in a piece of `Rows`: as many as rounds are decided together."""


def fresh(shape: Sequence[int], like: Tensor) -> Tensor:
    """An uninitialised tensor like another, writable in and out of torch's inference mode."""
    with torch.inference_mode(False):
        return like.new_empty(shape)


class Rows:
    """Rows numbered from 1 along dimension 1 of a (B, n, …) tensor; a prefix may be forgotten.

    The rows are stored in pieces of `PIECE` rows, so that forgetting frees whole pieces. A row that
    is kept is never overwritten in place: views stay valid, and a caller that kept the attributes
    can restore them.

    Args:
        rows: the first rows, (B, n, …); they fix the other dimensions, the dtype and the device.
    """

    count: int
    _gone: int
    _none: Tensor
    _pieces: dict[int, Tensor]  # piece i starts with row i·PIECE + 1

    def __init__(self, rows: Tensor) -> None:
        self._begin(rows, 0)

    def append(self, rows: Tensor) -> None:
        """Adds rows count+1 … count+n, (B, n, …)."""
        first, last = self.count, self.count + rows.shape[1]
        for index, low, high in _cut(first, last):
            if index not in self._pieces:
                shape = len(rows), PIECE, *rows.shape[2:]
                self._pieces[index] = fresh(shape, self._none)
            part = rows if low == first and high == last else rows[:, low - first : high - first]
            self._piece(index, low, high).copy_(part)
        self.count = last

    def write(self, row: int, values: Tensor) -> None:
        """Replaces a row, (B, 1, …); one that is forgotten stays so."""
        if row > self._gone:
            index = (row - 1) // PIECE
            piece = self._pieces[index]
            self._pieces = {**self._pieces, index: fresh(piece.shape, piece).copy_(piece)}
            self._piece(index, row - 1, row).copy_(values)

    def widen(self, size: int) -> None:
        """Makes the last dimension larger, what is new being 0."""
        more = (0, size - self._none.shape[-1])
        with torch.inference_mode(False):
            self._none = pad(self._none, more)
            self._pieces = {index: pad(piece, more) for index, piece in self._pieces.items()}

    def __getitem__(self, limits: tuple[int, int]) -> Tensor:
        """Rows start+1 … stop of limits (start, stop); a view if they lie in one piece."""
        start, stop = limits
        if not self._gone <= start <= stop <= self.count:
            raise IndexError(
                f"rows {start + 1} to {stop} are not kept; kept are {self._gone + 1} to "
                f"{self.count}"
            )
        cuts = _cut(start, stop)
        if len(cuts) == 1:
            return self._piece(*cuts[0])
        return torch.cat([self._piece(*cut) for cut in cuts], 1) if cuts else self._none

    @property
    def kept(self) -> tuple[int, int]:
        """The limits (start, stop) of the rows that are not forgotten."""
        return self._gone, self.count

    def forget(self, start: int) -> None:
        """Forgets rows 1 … start, which no later call asks for."""
        if start > self._gone:
            pieces, self._gone = self._pieces.items(), start
            self._pieces = {index: piece for index, piece in pieces if index >= start // PIECE}

    def retract(self, count: int) -> None:
        """Takes back the rows after the first `count`; those that come may write over them."""
        self.count = min(self.count, count)

    def state(self) -> dict[str, Tensor | int]:
        """The rows that are kept, and how many came before them."""
        return {"rows": self[self.kept].clone(), "start": self._gone}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that `state` gave."""
        self._begin(state["rows"], state["start"])

    def _begin(self, rows: Tensor, gone: int) -> None:
        self._none = fresh((len(rows), 0, *rows.shape[2:]), rows)
        self._pieces, self._gone, self.count = {}, gone, gone
        self.append(rows)

    def _piece(self, index: int, low: int, high: int) -> Tensor:
        """Rows low+1 … high, all of one piece."""
        return self._pieces[index].narrow(1, low - index * PIECE, high - low)


def _cut(start: int, stop: int) -> list[tuple[int, int, int]]:
    """Rows start+1 … stop by piece: its index, and which of them, low+1 … high, lie in it."""
    first = start // PIECE
    if start < stop <= (first + 1) * PIECE:  # nearly always
        return [(first, start, stop)]
    pieces = range(first, -(-stop // PIECE)) if start < stop else ()
    return [(i, max(i * PIECE, start), min((i + 1) * PIECE, stop)) for i in pieces]


class Scratch(threading.local):
    """Memory that each thread uses again and again, since new memory is slow at first."""

    def __init__(self) -> None:
        self._size, self._kept = 0, torch.empty(0)

    def empty(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised tensor like another, valid until this thread's next call."""
        kept = self._kept
        alike = (kept.dtype, kept.device) == (like.dtype, like.device)
        if alike and kept.shape == shape:
            return kept
        size = math.prod(shape)
        if size > self._size or not alike:
            self._size = size + size // 2
            kept = self._kept = fresh((self._size,), like)
        return kept.resize_(shape)
