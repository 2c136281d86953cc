"""Memory that grows, and memory that is used again."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def fresh(shape: Sequence[int], like: Tensor) -> Tensor:
    """A tensor that holds anything and can be written to in and out of torch's inference mode.

    Args:
        shape: of the tensor.
        like: fixes its dtype and device.
    """
    with torch.inference_mode(False):
        return like.new_empty(shape)


class Rows:
    """Rows numbered from 1 along dimension 1 of a (B, ·, …) tensor; a prefix may be forgotten.

    Args:
        rows: the first of them, (B, n, …); they fix every other dimension, the dtype and the
            device.
    """

    def __init__(self, rows: Tensor) -> None:
        self._data = rows
        self._start = 0  # rows dropped for good, that is: data[:, 0] is row start + 1
        self.count = rows.shape[1]

    def append(self, rows: Tensor) -> None:
        """Adds rows count+1 … count+n, (B, n, …)."""
        used = self.count - self._start
        need = used + rows.shape[1]
        if need > self._data.shape[1]:
            shape = list(self._data.shape)
            shape[1] = max(2 * need, 64)
            grown = fresh(shape, self._data)
            grown[:, :used] = self._data[:, :used]
            self._data = grown
        self._data[:, used:need] = rows
        self.count += rows.shape[1]

    def write(self, row: int, values: Tensor) -> None:
        """Replaces a row, (B, 1, …); one that is forgotten stays so."""
        if row > self._start:
            at = row - self._start
            self._data[:, at - 1 : at] = values

    def widen(self, size: int) -> None:
        """Makes the last dimension larger, what is new being 0."""
        data = fresh((*self._data.shape[:-1], size), self._data).zero_()
        data[..., : self._data.shape[-1]] = self._data
        self._data = data

    def __getitem__(self, span: tuple[int, int]) -> Tensor:
        """Rows after+1 … until of span (after, until], as a view."""
        after, until = span
        if not self._start <= after <= until <= self.count:
            raise IndexError(
                f"rows {after + 1} to {until} are not kept; kept are {self._start + 1} to "
                f"{self.count}"
            )
        return self._data[:, after - self._start : until - self._start]

    def forget(self, until: int) -> None:
        """Rows 1 … until are not asked for again; memory is given back when half is unused."""
        keep = self.count - until
        if until - self._start > max(keep, 64):
            kept = self[until, self.count]
            shape = list(self._data.shape)
            shape[1] = max(2 * keep, 64)
            data = fresh(shape, self._data)
            data[:, :keep] = kept
            self._data, self._start = data, until

    def state(self) -> dict[str, Tensor | int]:
        """The rows that are kept, and how many came before them."""
        return {"rows": self[self._start, self.count].clone(), "start": self._start}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state` gave."""
        self._data, self._start = state["rows"], state["start"]
        self.count = self._start + self._data.shape[1]


class Scratch(threading.local):
    """Memory that each thread uses again and again, since new memory is slow at first."""

    def __init__(self) -> None:
        self._kept: Tensor | None = None

    def empty(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """A tensor that holds anything, and is this thread's until it asks again.

        Args:
            shape: of the tensor.
            like: fixes its dtype and device.
        """
        size, kept = math.prod(shape), self._kept
        fits = kept is not None and (kept.dtype, kept.device) == (like.dtype, like.device)
        if kept is None or not fits or len(kept) < size:
            kept = self._kept = fresh((size + size // 2,), like)
        return kept[:size].view(shape)
