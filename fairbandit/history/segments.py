"""Segment counts: how many rows of each segment of a table have scores up to a value."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 1 << 17
"""The number of features gathered at a time, over all rows; they stay in cache."""

MOST = 1 << 22
"""The number of rows counted at a time, which keeps work memory small."""


def count_segments(
    table: Tensor,
    begin: Tensor,
    length: Tensor,
    values: Tensor,
    theta: Tensor,
    model: Tensor | None,
) -> Tensor:
    """For each of P segments, the number of its rows whose scores are at most its value.

    Args:
        table: (R, d).
        begin, length: the first row of each segment and the number of its rows, (P,) int64.
        values: the value of each segment, (P,). Comparisons with NaN are false.
        theta: weights of linear models, (U, d).
        model: the index of the model of each segment, (P,) int64; None if U is 1.

    Returns:
        Counts, (P,) float64.
    """
    stop = length.cumsum(0)
    start = stop - length
    count = int(stop[-1]) if len(stop) else 0
    if count > MOST and len(values) > 1:
        halves = [None] * 2 if model is None else model.chunk(2)
        parts = zip(begin.chunk(2), length.chunk(2), values.chunk(2), halves, strict=True)
        return torch.cat([count_segments(table, *part[:3], theta, part[3]) for part in parts])
    # the segment of each row, and its number in the table, for all rows of all segments
    segments = torch.repeat_interleave(length, output_size=count)
    rows = torch.arange(count, device=begin.device)
    rows += (begin - start).index_select(0, segments)
    size, scores = max(1, CHUNK // table.shape[1]), list[Tensor]()
    for segment, row in zip(segments.split(size), rows.split(size), strict=True):
        contexts = table.index_select(0, row)
        if model is None:
            scores.append(torch.mv(contexts, theta[0]))
        else:
            weights = theta.index_select(0, model.index_select(0, segment))
            scores.append(contexts.mul_(weights).sum(1))
    joined = scores[0] if len(scores) == 1 else torch.cat(scores)
    limits, before = values.index_select(0, segments), values.new_zeros(count + 1)
    torch.le(joined, limits, out=before[1:]).cumsum_(0)
    return before.index_select(0, stop) - before.index_select(0, start)
