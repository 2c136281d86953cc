"""Counting scores over many short stretches of one table, each for a question of its own."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNKS = (4, 8, 16)
"""Rows that are scored together: stretches are cut into pieces of so many, as they are long."""

AT_ONCE = 1 << 18
"""How many numbers of contexts are gathered at a time, so that they stay in cache."""


def count_ranges(
    table: Tensor,
    begin: Tensor,
    length: Tensor,
    values: Tensor,
    theta: Tensor,
    model: Tensor | None,
) -> Tensor:
    """How many rows of each stretch score no higher than a value.

    Args:
        table: (R, d).
        begin: the first row of each stretch, (…) int64.
        length: how many rows it has, (…) int64.
        values: what to compare with, (…).
        theta: θ of M linear models, (M, d).
        model: which of them scores each stretch, (…) int64; None where there is but one.

    Returns:
        Counts, (…) int64.
    """
    shape = begin.shape
    begin, length, values = begin.reshape(-1), length.reshape(-1), values.reshape(-1)
    mean = int(length.sum()) // max(1, len(length))
    chunk = next((size for size in CHUNKS if mean <= 2 * size), CHUNKS[-1])
    pieces = (length + (chunk - 1)) // chunk
    asks = torch.repeat_interleave(pieces)
    # the first row of each piece, and the row after the last of its stretch
    before = (pieces.cumsum(0) - pieces) * chunk
    first = torch.arange(0, len(asks) * chunk, chunk, device=table.device)
    first += (begin - before)[asks]
    end = (begin + length)[asks]
    within = torch.arange(chunk, device=table.device)
    counts = torch.zeros_like(begin)
    at_once = max(1, AT_ONCE // (chunk * table.shape[1]))
    lots = zip(*(part.split(at_once) for part in (asks, first, end)), strict=True)
    for ask, start, stop in [(asks, first, end)] if len(asks) <= at_once else lots:
        own = None if model is None else theta.index_select(0, model.reshape(-1)[ask])
        place = start[:, None] + within
        below = _below(table, place, stop, values[ask], theta[0] if own is None else own)
        counts.index_add_(0, ask, below)
    return counts.view(shape)


def _below(table: Tensor, place: Tensor, end: Tensor, values: Tensor, theta: Tensor) -> Tensor:
    """How many of the rows at (Q, C) places, and before an end, score no higher: (Q,).

    θ is (d,) for all, or (Q, d).
    """
    rows = table.index_select(0, place.clamp(max=len(table) - 1).view(-1))
    if theta.ndim == 1:
        scores = torch.mv(rows, theta).view(place.shape)
    else:
        scores = torch.bmm(rows.view(*place.shape, table.shape[1]), theta[..., None])[..., 0]
    return ((scores <= values[:, None]) & (place < end[:, None])).sum(1)
