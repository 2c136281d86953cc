"""The chunked scan: sums over windows of a group's past scores, in chunks that stay in cache.

A chunk is scored once under every model, for linear models as one matrix product, and compared with
all values of that model together. Masks are needed only where windows start or stop. Work memory is
used again, since the first writes to fresh memory are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from fairbandit.counting.buffer import RaggedBuffer
from fairbandit.counting.interface import ScoringModel
from fairbandit.counting.layout import Limits, Slots
from fairbandit.maths.buffers import Scratch

CHUNK = 1 << 18
"""About how many scores a chunk has, so that they stay in cache."""

SLOTS = 4
"""So many slots of a model are compared at a time, so that the comparisons stay in cache."""

Reduce = Callable[[Tensor, Tensor | None, int], Tensor]
"""Sums over (B, U, L) scores of consecutive entries: (B, U, S).

Also given are a mask, 1 for the entries that count for each slot and 0 for the others, (B, U, S, L)
or (1, U, S, L) float64, or None if all count; and the number of the first of the entries.
"""

_scores, _below = Scratch(), Scratch()


def scan(
    buffer: RaggedBuffer,
    model: ScoringModel,
    slots: Slots,
    reduce: Reduce,
    segment: tuple[int, int] = (0, 0),
) -> Tensor:
    """Sums over each slot's window minus those over a segment, (B, U, S).

    Args:
        buffer: the contexts.
        model: the U models.
        slots: of one group.
        reduce: sums over a chunk's scores.
        segment: start and stop of the segment; equal if there is none.
    """
    b, (_, u, s) = len(buffer.total), slots.start.shape
    sums = torch.zeros(b, u, s, dtype=torch.float64, device=slots.start.device)
    chunks = list(_chunks(slots.limits, segment, max(64, CHUNK // (b * u))))
    if not chunks:
        return sums
    score = _scoring(buffer, model, slots.group, chunks[0][0], chunks[-1][1])
    for low, high, counted, every in chunks:
        mask = None if every else slots.window(low, high)
        if counted and mask is not None:
            mask.neg_().add_(1)
        sums.add_(reduce(score(low, high), mask, low), alpha=-1 if counted else 1)
    return sums


def counting(values: Tensor) -> Reduce:
    """Counts scores that are at most the values, (B, U, S); NaN is for empty slots."""
    counts = torch.empty_like(values, memory_format=torch.contiguous_format)
    b, u, _ = values.shape
    # floats are several times as fast as booleans, both to make and to add up
    parts = list(zip(values.unsqueeze(3).split(SLOTS, 2), counts.split(SLOTS, 2), strict=True))

    def reduce(scores: Tensor, mask: Tensor | None, low: int) -> Tensor:
        every, length = scores.unsqueeze(2), scores.shape[2]
        for at, (asked, found) in enumerate(parts):
            memory = _below.empty((b, u, asked.shape[2], length), values)
            below = torch.le(every, asked, out=memory)
            if mask is not None:
                below.mul_(mask[:, :, at * SLOTS : (at + 1) * SLOTS])
            torch.sum(below, -1, out=found)
        return counts

    return reduce


def summing(
    f: Callable[..., Tensor], values: list[Tensor], ages: Callable[[int, int], Tensor] | None
) -> Reduce:
    """Sums f(score, *values).

    Args:
        f: an elementwise function.
        values: what else it is given, each (B, U, S).
        ages: gives the ages of entries low … high − 1, (B, U, S, high − low), as f's last
            argument; None gives it none.
    """
    own = [value[..., None] for value in values]

    def reduce(scores: Tensor, mask: Tensor | None, low: int) -> Tensor:
        past = scores[:, :, None]
        if ages is None:
            terms = f(past, *own)
        else:
            age = ages(low, low + scores.shape[2])
            terms = f(past.expand(-1, -1, age.shape[2], -1), *own, age)
        if mask is not None:
            terms = terms.where(mask > 0, 0)
        return terms.sum(-1, dtype=torch.float64)

    return reduce


def _scoring(
    buffer: RaggedBuffer, model: ScoringModel, group: int, first: int, last: int
) -> Callable[[int, int], Tensor]:
    """A function that scores entries low … high − 1 of a group under every model, (B, U, L).

    Its result is valid until it is called again.

    Args:
        buffer: the contexts.
        model: the U models.
        group: the group.
        first, last: all entries asked for are among first … last − 1.
    """
    if model.theta is None:
        contexts = buffer.contexts(group, first, last)[:, None]
        groups = torch.full(contexts.shape[:3], group, device=contexts.device)

        def score_any(low: int, high: int) -> Tensor:
            part = slice(low - first, high - first)
            return model.score(contexts[:, :, part], groups[:, :, part])

        return score_any
    theta = buffer.mask.of_group(group, model.theta)
    columns = buffer.stored(group, first, last).transpose(1, 2)
    b, u, _ = theta.shape

    def score(low: int, high: int) -> Tensor:
        chunk = columns[:, :, low - first : high - first]
        return torch.bmm(theta, chunk, out=_scores.empty((b, u, high - low), theta))

    return score


def _chunks(
    limits: Limits, segment: tuple[int, int], size: int
) -> Iterator[tuple[int, int, bool, bool]]:
    """The entries to be scanned for sums over windows minus a segment, in order.

    Args:
        limits: of the windows.
        segment: start and stop of the segment; equal if there is none.
        size: how many entries a chunk may have.

    Yields:
        low, high, counted and every: whether the segment has entries low … high − 1, which then
        count against the slots in whose windows they do not lie, and otherwise for those in whose
        windows they do; and whether that is every slot.
    """
    first, greatest_start, least_stop, last = limits
    start, stop = segment if segment[0] < segment[1] else (first, first)
    for low, high in pairwise(sorted({first, greatest_start, least_stop, last, start, stop})):
        counted = start <= low < stop
        in_all, in_none = greatest_start <= low < least_stop, not first <= low < last
        every, nothing = (in_none, in_all) if counted else (in_all, in_none)
        if not nothing:
            step = -(-(high - low) // -(-(high - low) // size))
            for begin in range(low, high, step):
                yield begin, min(begin + step, high), counted, every
