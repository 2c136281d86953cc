"""Counting scores over many short stretches of one table, each for a question of its own."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 16
"""Rows that are scored together: each question's stretch is cut into pieces of so many."""

AT_ONCE = 1 << 13
"""How many pieces are scored at a time."""

SMALL = 1 << 10
"""So many rows too many are scored rather than cutting stretches of unlike length to pieces."""


def count_ranges(
    table: Tensor,
    begin: Tensor,
    length: Tensor,
    values: Tensor,
    theta: Tensor,
    model: Tensor,
) -> Tensor:
    """How many rows of each stretch score no higher than a value.

    Args:
        table: (R, d).
        begin: the first row of each stretch, (…) int64.
        length: how many rows it has, (…) int64.
        values: what to compare with, (…).
        theta: θ of M linear models, (M, d).
        model: which of them scores each stretch, (…) int64.

    Returns:
        Counts, (…).
    """
    shape, most = begin.shape, int(length.max()) * begin.numel()
    begin, length, values, model = (t.reshape(-1) for t in (begin, length, values, model))
    if most <= SMALL or most <= min(4 * int(length.sum()), CHUNK * AT_ONCE):
        longest = most // begin.numel()
        return _below(table, begin, length, values, theta, model, longest).view(shape)
    counts = values.new_zeros(len(values))
    pieces = (length + (CHUNK - 1)) // CHUNK
    asks = torch.arange(len(values), device=table.device).repeat_interleave(pieces)
    nth = torch.arange(len(asks), device=table.device) - (pieces.cumsum(0) - pieces)[asks]
    first, left = begin[asks] + nth * CHUNK, length[asks] - nth * CHUNK
    for some in range(0, len(asks), AT_ONCE):
        ask, start, rest = (part[some : some + AT_ONCE] for part in (asks, first, left))
        below = _below(table, start, rest, values[ask], theta, model[ask], CHUNK)
        counts.index_add_(0, ask, below.to(counts.dtype))
    return counts.view(shape)


def _below(
    table: Tensor,
    begin: Tensor,
    length: Tensor,
    values: Tensor,
    theta: Tensor,
    model: Tensor,
    most: int,
) -> Tensor:
    """As `count_ranges`, for stretches of which at most so many rows count, (Q,) int64."""
    within = torch.arange(most, device=table.device)
    place = (begin[:, None] + within).clamp_(max=len(table) - 1)
    rows = table.index_select(0, place.view(-1))
    if len(theta) == 1:
        scores = (rows @ theta[0]).view(place.shape)
    else:
        rows = rows.view(*place.shape, table.shape[1])
        scores = torch.bmm(rows, theta.index_select(0, model)[..., None])[..., 0]
    return ((scores <= values[:, None]) & (within < length[:, None])).sum(1)
