"""Counting scores over many short stretches of one table, each for a question of its own."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 16
"""Rows that are scored together: each question's stretch is cut into pieces of so many."""

AT_ONCE = 1 << 13
"""How many pieces are scored at a time."""


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
        begin: the first row of each of Q stretches, (Q,) int64.
        length: how many rows it has, (Q,) int64.
        values: what to compare with, (Q,).
        theta: θ of M linear models, (M, d).
        model: which of them scores each stretch, (Q,) int64.

    Returns:
        Counts, (Q,) float64.
    """
    counts = values.new_zeros(len(values))
    pieces = (length + (CHUNK - 1)) // CHUNK
    asks = torch.arange(len(values), device=table.device).repeat_interleave(pieces)
    before = (pieces.cumsum(0) - pieces)[asks]
    nth = torch.arange(len(asks), device=table.device) - before
    first = begin[asks] + nth * CHUNK
    left = length[asks] - nth * CHUNK
    within = torch.arange(CHUNK, device=table.device)
    last = len(table) - 1
    for some in range(0, len(asks), AT_ONCE):
        ask, start, rest = (part[some : some + AT_ONCE] for part in (asks, first, left))
        place = (start[:, None] + within).clamp(max=last)
        rows = table.index_select(0, place.view(-1)).view(-1, CHUNK, table.shape[1])
        scores = torch.bmm(rows, theta[model[ask]][..., None])[..., 0]
        below = (scores <= values[ask][:, None]) & (within < rest[:, None])
        counts.index_add_(0, ask, below.sum(1).to(counts.dtype))
    return counts
