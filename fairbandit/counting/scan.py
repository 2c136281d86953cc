"""The chunked scan: sums over windows of each group's past scores, in chunks that stay in cache.

Values are laid out by group and model, padded so that all of one model are compared together. A
chunk of contexts is scored once under every model, for linear models as one matrix product, and
compared with all values of that model. Masks are needed only where windows differ.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from fairbandit.counting.contexts import Contexts, occurrences
from fairbandit.modes import inferring

CHUNK = 1 << 18
"""About how many scores a chunk has, and a quarter of the comparisons that are made at a time."""

MOST = 1 << 22
"""The most scores in a chunk, so that work memory stays small where there are very many models."""


_kept = threading.local()


def scratch(name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An uninitialised tensor, valid until this thread's next call with the same name.

    The first writes to new memory are slow, so each thread uses its own again and again.
    """
    size, kept = math.prod(shape), getattr(_kept, name, None)
    if (
        kept is None
        or kept.numel() < size
        or (kept.dtype, kept.device) != (like.dtype, like.device)
    ):
        kept = inferring(False, like.new_empty, size + size // 2)  # writable in every mode
        setattr(_kept, name, kept)
    return kept[:size].view(shape)


Limits = tuple[int, int, int, int]
"""Of all windows in a group: the least and the greatest first entry, and those of the stops."""

Score = Callable[[Tensor, int], Tensor]
"""Scores contexts (B, L, d) of a group under every model: (B, U, L)."""

Reduce = Callable[[list[Tensor], list[Tensor], Tensor | None], Tensor]
"""Sums over the L entries of a chunk, for S values of each model: (B, U, S).

It is given what is known of the entries, (B, U or 1, 1, L) each, and of the values, (B, U, S, 1)
each and NaN in empty slots; and a mask, 1 for the entries that count for each value and 0 for the
others, (B or 1, U, S, L) float64, or None if all count.
"""


class Windows:
    """The windows of N rounds, and a slot for every value, by group and model.

    If all replicas have the same groups and windows, the layout is that of one replica, b = 1.

    Args:
        contexts: the entries.
        ends: the window of each round in every group, entries start … stop − 1, (2, B, N, G).
        groups: the group of each value, (B, N, M) int64, −1 for none.
        model_of_round: (N,) int64, nondecreasing.
        models: U.

    Attributes:
        limits: of the windows in each group.
    """

    def __init__(
        self, contexts: Contexts, ends: Tensor, groups: Tensor, model_of_round: Tensor, models: int
    ) -> None:
        self._contexts, self._shape = contexts, groups.shape
        least, greatest = ends.flatten(1, 2).aminmax(dim=1)
        (first, least_stop), (greatest_start, last) = least.tolist(), greatest.tolist()
        self.limits = list(zip(first, greatest_start, least_stop, last, strict=True))
        if all(bool((part == part[:1]).all()) for part in (groups, ends.transpose(0, 1))):
            groups, ends = groups[:1], ends[:, :1]
        g, flat = contexts.groups, groups.flatten(1)
        key = flat * models + model_of_round.repeat_interleave(groups.shape[2])
        replica = torch.arange(len(key), device=key.device)[:, None]
        each = (key + replica * (g + 1) * models).flatten().numpy(force=True)
        number = torch.from_numpy(occurrences(each)).to(key.device).view(key.shape)
        widths = number.new_zeros(g + 1)
        widths.scatter_reduce_(0, flat.flatten() + 1, number.flatten() + 1, "amax")
        self._widths = widths[1:].tolist()
        width = max(self._widths, default=0)
        self._slots = g, models, width
        self._slot = torch.add(number, key, alpha=width).masked_fill_(flat < 0, g * models * width)
        own = groups.clamp(min=0)
        self._ends = [self._place(end.gather(2, own), 0) for end in ends.to(torch.float64)]

    def sum(
        self,
        score: Score,
        reduce: Reduce,
        values: Sequence[Tensor],
        segment: Sequence[tuple[int, int]] | None = None,
        *,
        rounds: bool = False,
    ) -> Tensor:
        """Sums over the windows minus those over a segment of each group.

        Args:
            score: gives what is known of the entries.
            reduce: what sums.
            values: what `reduce` is given of the values, (B, N, M) each.
            segment: start and stop of each group's segment; None is the same as empty ones.
            rounds: whether `reduce` is also given the rounds of the entries.

        Returns:
            Sums, (B, N, M) float64; 0 for values of no group.
        """
        b, u = self._shape[0], self._slots[1]
        size = max(1, min(max(64, CHUNK // (b * u)), MOST // (b * u)))
        sums = torch.zeros(b, *self._slots, dtype=torch.float64, device=self._slot.device)
        laid_out = [sums, *self._ends, *(self._place(value, torch.nan) for value in values)]
        for group, width in enumerate(self._widths):
            limits = self.limits[group]
            whole = [part[:, group, :, :width, None] for part in laid_out]
            minus = segment[group] if segment else (0, 0)
            for low, high, counted in _chunks(limits, minus, size) if width else ():
                known = [score(self._contexts.entries(group, low, high), group).unsqueeze(2)]
                if rounds:
                    known.append(self._contexts.rounds_of(group, low, high)[:, None, None])
                step = max(1, 4 * CHUNK // (b * u * (high - low)))
                parts = [whole]
                if width > step:
                    parts = list(map(list, zip(*(x.split(step, 2) for x in whole), strict=True)))
                for total, start, stop, *given in parts:
                    mask = _inside(low, high, start, stop, limits)
                    if counted and mask is not None:  # it counts where windows leave entries out
                        mask.neg_().add_(1)
                    found = reduce(known, given, mask)
                    total.squeeze(3).add_(found, alpha=-1 if counted else 1)
        sums = torch.nn.functional.pad(sums.flatten(1), (0, 1))
        return sums.gather(1, self._slot.expand(b, -1)).view(self._shape)

    def _place(self, values: Tensor, empty: float) -> Tensor:
        """Values, (b, N, M), in their slots, (b, G, U, S)."""
        b, (g, models, width) = len(values), self._slots
        flat = values.new_full((b, g * models * width + 1), empty)
        flat.scatter_(1, self._slot.expand(b, -1), values.reshape(b, -1))
        return flat[:, :-1].view(b, *self._slots)


def products(theta: Tensor) -> Score:
    """The scores of linear models of weights (B, U, d); they are valid until the next call."""

    def score(contexts: Tensor, group: int) -> Tensor:
        memory = scratch("scores", (*theta.shape[:2], contexts.shape[1]), theta)
        return torch.bmm(theta, contexts.mT, out=memory)

    return score


def scoring(score: Callable[[Tensor, Tensor], Tensor]) -> Score:
    """The scores that a function of (B, 1, L, d) contexts and (B, 1, L) groups gives."""

    def of_group(contexts: Tensor, group: int) -> Tensor:
        b, length, _ = contexts.shape
        return score(contexts[:, None], torch.full((b, 1, length), group, device=contexts.device))

    return of_group


def counting(known: list[Tensor], given: list[Tensor], mask: Tensor | None) -> Tensor:
    """Counts scores that are at most the values; see `Reduce`."""
    (scores,), (values,) = known, given
    # floats are several times as fast as booleans, both to make and to add up
    memory = scratch("below", (*values.shape[:3], scores.shape[3]), values)
    below = torch.le(scores, values, out=memory)
    return (below if mask is None else below.mul_(mask)).sum(3)


def summing(f: Callable[..., Tensor]) -> Reduce:
    """Sums f(score, *values), or f(score, *values, age) if entries have rounds; see `Reduce`."""

    def reduce(known: list[Tensor], given: list[Tensor], mask: Tensor | None) -> Tensor:
        past, values = known[0], given
        if len(known) > 1:
            *values, now = given
            age = (now - known[1]).clamp_(min=1)
            past, values = past.expand(age.shape), [*values, age]
        terms = f(past, *values)
        if mask is not None:
            terms = terms.where(mask > 0, 0)
        return terms.sum(3, dtype=torch.float64)

    return reduce


def _inside(low: int, high: int, start: Tensor, stop: Tensor, limits: Limits) -> Tensor | None:
    """Which of the entries low … high − 1 lie in each window; see `Reduce`.

    Multiplying floats is faster than using booleans. The mask is valid until the next call.
    """
    starts, stops = low < limits[1], high > limits[2]
    if not (starts or stops):
        return None
    entry = torch.arange(low, high, dtype=torch.float64, device=start.device)
    shape, masks = (*start.shape[:3], high - low), list[Tensor]()
    if starts:
        masks.append(torch.ge(entry, start, out=scratch("started", shape, entry)))
    if stops:
        masks.append(torch.lt(entry, stop, out=scratch("unended", shape, entry)))
    return masks[0].mul_(masks[1]) if len(masks) > 1 else masks[0]


def _chunks(limits: Limits, segment: tuple[int, int], size: int) -> Iterator[tuple[int, int, bool]]:
    """The entries to be scanned for sums over windows minus a segment, in order.

    Yields:
        low, high and counted. Entries low … high − 1 count for the values in whose windows they
        lie. If counted, they are of the segment, and count against the values in whose windows they
        do not lie.
    """
    first, greatest_start, least_stop, last = limits
    start, stop = segment if segment[0] < segment[1] else (first, first)
    for low, high in pairwise(sorted({first, greatest_start, least_stop, last, start, stop})):
        counted = start <= low < stop
        in_all, in_none = greatest_start <= low < least_stop, not first <= low < last
        if not (in_all if counted else in_none):
            step = -(-(high - low) // -(-(high - low) // size))
            for begin in range(low, high, step):
                yield begin, min(begin + step, high), counted
