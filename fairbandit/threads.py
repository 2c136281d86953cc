"""Threads of our own, for work that falls into a few independent pieces.

Torch's threads share out every single operation and wait for each other after each, which costs
more than it gives on tensors of our sizes, and far more where another process wants the cores.
Ours take a piece of many operations at a time, and torch keeps to one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from fairbandit.maths.buffers import fresh

T = TypeVar("T")
S = TypeVar("S")

_pool: ThreadPoolExecutor | None = None


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for `each` for a while, and one for torch; then as before.

    Args:
        count: at least 1; with 1, everything happens in the calling thread.
    """
    global _pool
    before, torchs = _pool, torch.get_num_threads()
    torch.set_num_threads(1)
    _pool = ThreadPoolExecutor(count, "fairbandit") if count > 1 else None
    try:
        yield
    finally:
        if _pool is not None:
            _pool.shutdown()
        _pool = before
        torch.set_num_threads(torchs)


def each(work: Callable[[T], S], pieces: Iterable[T]) -> list[S]:
    """What some work gives for every piece, in their order, whoever did it.

    Args:
        work: uses nothing that another piece's work changes.
        pieces: the longest first, since threads take the next as they become free.
    """
    if _pool is None:
        return [work(piece) for piece in pieces]
    return list(_pool.map(work, pieces))


class Scratch(threading.local):
    """Memory that each thread uses again and again, since new memory is slow at first."""

    def __init__(self) -> None:
        self._kept = torch.empty(0)

    def empty(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """A tensor that holds anything, and is this thread's until it asks again.

        Args:
            shape: of the tensor.
            like: fixes its dtype and device.
        """
        size, kept = math.prod(shape), self._kept
        if len(kept) < size or kept.dtype != like.dtype or kept.device != like.device:
            kept = self._kept = fresh((size,), like)
        return kept[:size].view(shape)
