"""An append-only buffer of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass
class _Memory:
    parts: Sequence[Tensor]
    first: int
    filled: int  # the number after the last written row, or −1 during a write


class Rows:
    """Rows along dimension 1 of several tensors, numbered from 0; first rows may be forgotten.

    `Rows` is a value: `append` returns longer rows, which share memory with the shorter rows. Only
    the longest rows append in place; all others copy the rows that they keep. To undo an append,
    use the shorter rows again. An interrupted append changes no rows.

    Args:
        parts: the first rows, (·, n, …) each.
        first: the number of the first row.

    >>> import torch
    >>> short = Rows([torch.zeros(1, 2)])
    >>> long = short.append(torch.ones(1, 1))
    >>> short.stop, long.stop, long[1, 3]
    (2, 3, [tensor([[0., 1.]])])
    """

    def __init__(self, parts: Sequence[Tensor], first: int = 0) -> None:
        self.start, self.stop = first, first + parts[0].shape[1]
        self._memory = _Memory(parts, first, self.stop)

    def append(self, *parts: Tensor) -> Rows:
        """These rows followed by n further rows, (·, n, …) each."""
        memory, stop = self._memory, self.stop + parts[0].shape[1]
        if memory.filled != self.stop or stop - memory.first > memory.parts[0].shape[1]:
            room, kept = max(64, 2 * (stop - self.start)), self[self.start, self.stop]
            wider = [part.new_empty(len(part), room, *part.shape[2:]) for part in memory.parts]
            for new, old in zip(wider, kept, strict=True):
                new[:, : old.shape[1]] = old
            memory = _Memory(wider, self.start, self.stop)
        memory.filled = -1
        for rows, new in zip(memory.parts, parts, strict=True):
            rows.narrow(1, self.stop - memory.first, stop - self.stop).copy_(new)
        memory.filled = stop
        return self._between(memory, self.start, stop)

    def forget(self, start: int) -> Rows:
        """The rows from number `start` on; a later append frees the memory of the others."""
        if start <= self.start:
            return self
        return self._between(self._memory, min(start, self.stop), self.stop)

    def __getitem__(self, limits: tuple[int, int]) -> list[Tensor]:
        """Rows start … stop − 1 of every tensor, as views.

        Raises:
            IndexError: some of the rows are not kept.
        """
        start, stop = limits
        if not self.start <= start <= stop <= self.stop:
            raise IndexError(
                f"rows {start} to {stop - 1} are not kept; kept are {self.start} to {self.stop - 1}"
            )
        at = start - self._memory.first
        return [part.narrow(1, at, stop - start) for part in self._memory.parts]

    @staticmethod
    def _between(memory: _Memory, start: int, stop: int) -> Rows:
        rows = object.__new__(Rows)
        rows._memory, rows.start, rows.stop = memory, start, stop
        return rows
