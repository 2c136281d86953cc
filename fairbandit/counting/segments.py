"""Segment counts: for many short segments of one table, how many rows score at most some values."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 1 << 17
"""How many numbers of contexts are gathered at a time, so that they stay in cache."""


def count_segments(
    table: Tensor,
    begin: Tensor,
    length: Tensor,
    values: Tensor,
    theta: Tensor,
    model: Tensor | None,
) -> Tensor:
    """For each segment and each of its V values, how many rows score no higher.

    Args:
        table: (R, w).
        begin: the first row of each segment, (…) int64.
        length: how many rows it has, (…) int64.
        values: what its rows are compared with, (…, V); nothing is at most NaN.
        theta: weights of linear models, (U, w).
        model: which of them scores each segment, (…) int64; None if there is only one.

    Returns:
        Counts, (…, V) float64.
    """
    shape, lengths = values.shape, length.reshape(-1)
    values = values.reshape(-1, shape[-1])
    counts = torch.zeros_like(values)
    # all rows of all segments: the segment of each, and its row in the table
    segments = torch.repeat_interleave(lengths)
    shift = begin.reshape(-1) - (lengths.cumsum(0) - lengths)
    count, size = segments.shape[0], max(1, CHUNK // table.shape[1])
    rows = shift.index_select(0, segments) + torch.arange(count, device=segments.device)
    chunks = [(segments, rows)]
    if count > size:
        chunks = list(zip(segments.split(size), rows.split(size), strict=True))
    for segment, row in chunks:
        contexts = table.index_select(0, row)
        if model is None:
            scores = torch.mv(contexts, theta[0])[:, None]
        else:
            own = theta.index_select(0, model.reshape(-1).index_select(0, segment))
            scores = contexts.mul_(own).sum(1, keepdim=True)
        asked = values.index_select(0, segment)
        counts.index_add_(0, segment, torch.le(scores, asked, out=asked))
    return counts.view(shape)
