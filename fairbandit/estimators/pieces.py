"""Pieces of a fit, whose tensors have a bounded size."""

from __future__ import annotations

from collections.abc import Iterator

PIECE = 1 << 22
"""The most numbers in the largest tensor of a fit; further models are fitted afterwards."""


def pieces(models: int, each: int) -> Iterator[slice]:
    """Divides models 0 … U − 1 into slices whose rows hold at most `PIECE` numbers together."""
    step = max(1, PIECE // max(each, 1))
    for start in range(0, models, step):
        yield slice(start, min(start + step, models))
