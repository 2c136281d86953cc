"""The chunked scan: sums over windows of a group's past scores, in chunks that stay in cache.

Values are laid out by group and model, padded so that all of one model are compared together. A
chunk is scored once under every model, for linear models as one matrix product, and compared with
all values of that model. Masks are needed only where windows differ. Work memory is used again,
since the first writes to fresh memory are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.counting.buffer import RaggedBuffer
from fairbandit.counting.interface import ScoringModel
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

_scores, _below, _started, _unended = Scratch(), Scratch(), Scratch(), Scratch()


class Limits(NamedTuple):
    """The limits of the windows of all rounds asked about, as entries of one group.

    Attributes:
        least_start, greatest_start: of the windows' first entries.
        least_stop, greatest_stop: of the entries after the windows' last ones.
    """

    least_start: int
    greatest_start: int
    least_stop: int
    greatest_stop: int


@dataclass(frozen=True)
class Slots:
    """The slots for one group's values, (B, U, S); some are empty.

    Attributes:
        group: the group.
        start, stop: the window of each slot's round, entries start … stop − 1: (B, U, S) float64,
            or (1, U, S) if all replicas are alike.
        limits: of all windows.
    """

    group: int
    start: Tensor
    stop: Tensor
    limits: Limits

    def window(self, low: int, high: int) -> Tensor:
        """Which of the entries low … high − 1 lie in each slot's window: 1 or 0, (…, high − low).

        Multiplying floats is faster than using booleans. The mask is valid until the next call.
        """
        entry = torch.arange(low, high, dtype=torch.float64, device=self.start.device)
        shape = *self.start.shape, high - low
        masks = list[Tensor]()
        if low < self.limits.greatest_start:
            masks.append(torch.ge(entry, self.start[..., None], out=_started.empty(shape, entry)))
        if high > self.limits.least_stop:
            masks.append(torch.lt(entry, self.stop[..., None], out=_unended.empty(shape, entry)))
        return masks[0] if len(masks) == 1 else masks[0].mul_(masks[1])


class Layout:
    """Assigns every value to a slot of its group and model.

    If all replicas have the same groups and windows, the layout is that of one replica, B = 1.

    Args:
        groups: (B, N, M) int64, −1 for none.
        of_round: which model each round uses, (N,) int64, nondecreasing.
        models: U.
        start, stop: the window of each round in every group, entries start … stop − 1: (B, N, G).
        limits: of these windows, one for each group.

    Attributes:
        slots: of every group that has values.
    """

    def __init__(
        self,
        groups: Tensor,
        of_round: Tensor,
        models: int,
        start: Tensor,
        stop: Tensor,
        limits: Sequence[Limits],
    ) -> None:
        (b, n, m), g = groups.shape, start.shape[2]
        flat, own = groups.reshape(b, n * m), groups.clamp(min=0)
        member, of_value = own.view(b, n * m), of_round.repeat_interleave(m)
        # number the values of one group and model, those of no group apart
        key = (member * models + of_value).where(flat >= 0, g * models)
        ordered, order = key.sort(stable=True)
        number = torch.arange(n * m, device=flat.device) - torch.searchsorted(ordered, ordered)
        slot = torch.empty_like(key).scatter_(1, order, number)
        most = slot.new_full((g + 1,), -1)
        most.scatter_reduce_(0, flat.reshape(-1) + 1, slot.reshape(-1), "amax")
        # the slots of one group lie after those of another
        self._widths = [last + 1 for last in most[1:].tolist()]
        ends = [models * sum(self._widths[: group + 1]) for group in range(g)]
        self._count, self._models, self._shape = ends[-1], models, groups.shape
        sizes = torch.tensor([[0, *ends[:-1]], self._widths], device=flat.device)
        base, width = sizes[:, member]
        self._slot = (base + of_value * width + slot).where(flat >= 0, self._count)
        starts, stops = (
            self._placed(entry.gather(2, own).to(torch.float64), 0) for entry in (start, stop)
        )
        taken = [group for group, width in enumerate(self._widths) if width]
        self.slots = [
            Slots(group, low, high, limits[group])
            for group, low, high in zip(taken, starts, stops, strict=True)
        ]

    def place(self, values: Tensor) -> list[Tensor]:
        """Values, (B, N, M), in their slots, (B, U, S) for each group; NaN in empty ones."""
        return self._placed(values, torch.nan)

    def collect(self, placed: Sequence[Tensor]) -> Tensor:
        """Values, (B, N, M), out of their slots, (B, U, S) float64; 0 for those of no group."""
        b = len(placed[0]) if placed else self._shape[0]
        nothing = torch.zeros(b, 1, dtype=torch.float64, device=self._slot.device)
        flat = torch.cat([*(part.reshape(b, -1) for part in placed), nothing], 1)
        return flat.gather(1, self._slot.expand(b, -1)).view(b, *self._shape[1:])

    def _placed(self, values: Tensor, empty: float) -> list[Tensor]:
        b = len(values)
        flat = values.new_full((b, self._count + 1), empty)
        flat.scatter_(1, self._slot.expand(b, -1), values.reshape(b, -1))
        sizes = [self._models * width for width in self._widths if width]
        parts = flat.split([*sizes, 1], 1)[:-1]
        return [part.view(b, self._models, -1) for part in parts]


def scan(
    buffer: RaggedBuffer,
    model: ScoringModel,
    slots: Slots,
    reduce: Reduce,
    segment: tuple[int, int] = (0, 0),
) -> Tensor:
    """Sums over each slot's window minus those over a segment, (B, U, S).

    The segment is start and stop, which are equal if there is none.
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
        values: each (B, U, S).
        ages: gives the ages of entries low … high − 1, (B, U, S, high − low), which f then gets as
            its last argument.
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

    All of them must be among entries first … last − 1. The scores are valid until the next call.
    """
    if model.theta is None:
        features = buffer.mask.features
        some = None if features is None else model.of_features(features[group])
        read, model = (buffer.contexts, model) if some is None else (buffer.stored, some)
        contexts = read(group, first, last)[:, None]
        groups = torch.full(contexts.shape[:3], group, device=contexts.device)
        return lambda low, high: model.score(
            contexts[:, :, low - first : high - first], groups[:, :, low - first : high - first]
        )
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

    Yields:
        low, high, counted and every. Entries low … high − 1 count for the slots in whose windows
        they lie. If counted, they are of the segment, and count against the slots in whose windows
        they do not lie. If every, they count for, or against, every slot.
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
