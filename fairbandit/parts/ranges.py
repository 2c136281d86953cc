"""Counting scores over many short stretches of one table, each for questions of its own."""

from __future__ import annotations

import torch
from torch import Tensor

AT_ONCE = 1 << 17
"""How many numbers of contexts are gathered at a time, so that they stay in cache."""


def count_ranges(
    table: Tensor,
    begin: Tensor,
    length: Tensor,
    values: Tensor,
    theta: Tensor,
    model: Tensor | None,
) -> Tensor:
    """How many rows of each stretch score no higher than some values.

    Args:
        table: (R, d).
        begin: the first row of each stretch, (…) int64.
        length: how many rows it has, (…) int64.
        values: V numbers to compare each of its rows with, (…, V).
        theta: θ of M linear models, (M, d).
        model: which of them scores each stretch, (…) int64; None where there is but one.

    Returns:
        Counts, (…, V) float64.
    """
    shape, lengths = values.shape, length.reshape(-1)
    values = values.reshape(-1, shape[-1])
    counts = torch.zeros_like(values)
    asks = torch.repeat_interleave(lengths)
    # how far each stretch lies from where it would, if each began where another ends
    shift = begin.reshape(-1) - (lengths.cumsum(0) - lengths)
    places = torch.arange(len(asks), device=asks.device) + shift.index_select(0, asks)
    at_once = max(1, AT_ONCE // table.shape[1])
    lots = [(asks, places)]
    if len(asks) > at_once:
        lots = list(zip(asks.split(at_once), places.split(at_once), strict=True))
    for ask, place in lots:
        rows = table.index_select(0, place)
        if model is None:
            scores = torch.mv(rows, theta[0])[:, None]
        else:
            own = theta.index_select(0, model.reshape(-1).index_select(0, ask))
            scores = rows.mul_(own).sum(1, keepdim=True)
        below = torch.empty(len(ask), shape[-1], dtype=values.dtype, device=asks.device)
        torch.le(scores, values.index_select(0, ask), out=below)
        counts.index_add_(0, ask, below)
    return counts.view(shape)
