"""Counts under linear models, in whichever way costs least: costs never change the counts.

Few entries are gathered, more are scanned in chunks, and long windows are searched in a sorted
segment, outside which the entries are gathered or scanned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.counting.contexts import Contexts
from fairbandit.counting.scan import Windows, counting, limits_of, products
from fairbandit.counting.segments import count_segments
from fairbandit.counting.sorted_segment import SortedSegment

GATHER = 10
"""The cost of one comparison where contexts are gathered; in a chunked scan it is 1."""

GROUP = 25_000
"""The cost of beginning the scan of one more group."""

SORT = 60
"""The cost of sorting one more context."""

SEARCH, SEARCH_SETUP = 600, 400
"""The cost of searching a sorted segment for one more value; and for any, in values, times d.

Comparisons become cheaper, in proportion, as there are more features; this does not."""


class Rest(NamedTuple):
    """What is left of the windows beside a sorted segment, if there is one.

    Attributes:
        held: the sorted segment.
        begin, length: entries of the value's group, (S, B, N, M) int64 each.
        sign: whether they count or are to be subtracted, 1 or −1.
        compared: how many they are.
    """

    held: SortedSegment | None
    begin: Tensor
    length: Tensor
    sign: Tensor
    compared: float


class LinearCounts:
    """Counts in the windows of (B, N, M) values.

    Args:
        contexts: the past contexts.
        windows: start and stop of each round's window in every group, (2, B or 1, N, G).
        groups: the group of each value, (B, N, M) int64, −1 for none.
        model_of_round: which model each round uses, (N,) int64.
        theta: weights of the U linear models, (B, U, d).
        scanned: gives the same windows for a chunked scan.
    """

    def __init__(
        self,
        contexts: Contexts,
        windows: Tensor,
        groups: Tensor,
        model_of_round: Tensor,
        theta: Tensor,
        scanned: Callable[[], Windows],
    ) -> None:
        self._contexts, self._windows, self._theta, self._scanned = (
            contexts,
            windows,
            theta,
            scanned,
        )
        self._absent, self._own = groups < 0, groups.clamp(min=0)
        self._model_of_round, self._theta = model_of_round, theta
        every = windows.expand(-1, len(groups), -1, -1)
        self._ends = every.gather(3, self._own.expand(2, -1, -1, -1))

    def count_le(self, values: Tensor) -> Tensor:
        """How many entries score no higher than each value, (B, N, M) float64."""
        whole = self._rest(None)
        counts = self._count_sorted(values, self._cost(whole.compared))
        if counts is None:
            counts = self._count_rest(values, whole)
        return counts.masked_fill_(self._absent | values.isnan(), 0)

    def _count_sorted(self, values: Tensor, scan: float) -> Tensor | None:
        """Counts by a sorted segment and what is beside it; None if a scan of all costs less.

        As windows move on and models drift, more entries beside the segment are scanned, and more
        inside are scored again. Once this has cost as much as sorting, the common part of all
        windows is sorted once more, if sorting has paid.
        """
        memory, (b, _, d) = self._contexts.memory, self._theta.shape
        budget = scan - SEARCH * (SEARCH_SETUP / d + values.numel())
        if scan < memory.not_worth_sorting or budget < scan * 2 / 3:
            return None
        held, counts, paid = memory.sorted, None, True
        if held is not None:
            price = SORT * b * held.length
            if held.spent <= price:
                counts = self._count_by(held, values, budget)
            paid = held.saved >= held.spent + price
        if counts is None and paid:
            held = self._sorted()
            counts = self._count_by(held, values, budget) if held and held.exact else None
        if counts is None:
            memory.sorted, memory.not_worth_sorting = None, 1.5 * scan
        elif memory.sorted is not held:
            memory.sorted = held
        return counts

    def _sorted(self) -> SortedSegment | None:
        """The common part of all windows, sorted by the last model; None if there is none."""
        ends = [(low, max(low, high)) for _, low, high, _ in limits_of(self._windows)]
        if all(low == high for low, high in ends):
            return None
        contexts = [self._contexts.entries(at, *limits) for at, limits in enumerate(ends)]
        return SortedSegment(contexts, [low for low, _ in ends], self._theta[:, -1])

    def _count_by(self, held: SortedSegment, values: Tensor, budget: float) -> Tensor | None:
        """Counts by a sorted segment and what is beside it; None if that exceeds a budget."""
        rest = self._rest(held)
        left = (budget - self._cost(rest.compared)) / GATHER
        found = held.count_le(self._own, values, self._model_of_round, self._theta, left)
        if found is None:
            return None
        counts, again = found
        held.saved += budget
        held.spent += self._cost(rest.compared) + GATHER * again
        return counts + self._count_rest(values, rest)

    def _count_rest(self, values: Tensor, rest: Rest) -> Tensor:
        held, begin, length, sign, compared = rest
        if self._cost(compared) < GATHER * compared:
            segment = None if held is None else list(zip(held.start, held.stop, strict=True))
            return self._scanned().sum(products(self._theta), counting, [values], segment)
        (b, u, d), memory, model = self._theta.shape, self._contexts.memory, None
        row = begin + memory.address[self._own]
        if b > 1:
            row += torch.arange(b, device=row.device)[:, None, None] * memory.rows.shape[1]
        if b * u > 1:
            first = torch.arange(b, device=row.device)[:, None, None] * u
            model = (first + self._model_of_round[:, None]).expand(row.shape).flatten()
        given = length.flatten(), values.expand(row.shape).flatten()
        rows, theta = memory.rows.view(-1, d), self._theta.reshape(-1, d)
        counts = count_segments(rows, row.flatten(), *given, theta, model).view(row.shape)
        return counts[0] if held is None else (counts * sign).sum(0)

    def _rest(self, held: SortedSegment | None) -> Rest:
        """The windows minus a segment: what lies between the stops, minus that between starts."""
        if held is None:
            upper, lower = self._ends[1:], self._ends[:1]
        else:
            (start, stop), (first, last) = self._ends, held.ends[:, self._own]
            upper, lower = torch.stack([first, stop]), torch.stack([start, last])
        more = upper - lower
        length = more.abs().masked_fill_(self._absent, 0)
        begin = torch.minimum(upper, lower)
        return Rest(held, begin, length, more.sign_(), float(length.sum()))

    def _cost(self, compared: float) -> float:
        """The cost of so many comparisons, gathered or scanned."""
        return min(GATHER * compared, compared + GROUP * self._contexts.groups)
