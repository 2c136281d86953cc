"""Counts under linear models, in whichever way costs least: costs never change the counts.

Few entries are gathered, more are scanned in chunks, and long windows are searched in a sorted
segment, outside which the entries are gathered or scanned.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fairbandit.counting.contexts import Contexts
from fairbandit.counting.scan import Windows, counting, products
from fairbandit.counting.segments import count_segments
from fairbandit.counting.sorted_segment import SortedSegment

GATHER = 10
"""The cost of one comparison where contexts are gathered; in a chunked scan it is 1."""

AGAIN = 10
"""The cost of scoring one sorted context again."""

GROUP = 25_000
"""The cost of beginning the scan of one more group."""

SORT = 60
"""The cost of sorting one more context."""

SEARCH, SEARCH_SETUP = 600, 400
"""The cost of searching a sorted segment for one more value; and for any, in values, times d.

Comparisons become cheaper, in proportion, as there are more features; this does not."""


class LinearCounts:
    """Counts in the windows of (B, N, M) values.

    Args:
        contexts: the past contexts.
        ends: start and stop of the window of each value, entries of its group, (2, B, N, M) int64.
        groups: the group of each value, (B, N, M) int64, −1 for none.
        model_of_round: which model each round uses, (N,) int64.
        theta: weights of the U linear models, (B, U, d).
        windows: gives the same windows for a chunked scan.
    """

    def __init__(
        self,
        contexts: Contexts,
        ends: Tensor,
        groups: Tensor,
        model_of_round: Tensor,
        theta: Tensor,
        windows: Callable[[], Windows],
    ) -> None:
        self._contexts, self._ends, self._windows = contexts, ends, windows
        self._absent, self._own = groups < 0, groups.clamp(min=0)
        self._model_of_round, self._theta = model_of_round, theta

    def count_le(self, values: Tensor) -> Tensor:
        """How many entries score no higher than each value, (B, N, M) float64."""
        start, stop = self._ends
        length = (stop - start).masked_fill_(self._absent, 0)
        compared = float(length.sum())
        counts = self._count_sorted(values, self._cost(compared))
        if counts is None and self._scans(compared):
            counts = self._windows().sum(products(self._theta), counting, [values])
        elif counts is None:
            counts = self._gather(values, start, length)
        return counts.masked_fill(self._absent | values.isnan(), 0)

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
            if (held := self._sorted()) is None:
                return None
            counts = self._count_by(held, values, budget) if held.exact else None
        if counts is None:
            held, memory.not_worth_sorting = None, 1.5 * scan
        memory.sorted = held
        return counts

    def _sorted(self) -> SortedSegment | None:
        """The common part of all windows, sorted by the last model; None if there is none."""
        ends = [(low, max(low, high)) for _, low, high, _ in self._windows().limits]
        if all(low == high for low, high in ends):
            return None
        contexts = [self._contexts.entries(at, *limits) for at, limits in enumerate(ends)]
        return SortedSegment(contexts, [low for low, _ in ends], self._theta[:, -1])

    def _count_by(self, held: SortedSegment, values: Tensor, budget: float) -> Tensor | None:
        """Counts by a sorted segment and what is beside it; None if that exceeds a budget."""
        # the windows minus the segment are what lies between the stops, minus what lies between
        # the starts; either may be negative
        sorted_ends = held.ends[:, self._own]
        more = self._ends - sorted_ends
        length = more.abs().masked_fill_(self._absent, 0)
        compared = float(length.sum())
        left = (budget - self._cost(compared)) / AGAIN
        found = held.count_le(self._own, values, self._model_of_round, self._theta, left)
        if found is None:
            return None
        counts, again = found
        held.saved += budget
        held.spent += self._cost(compared) + AGAIN * again
        if self._scans(compared):
            segment = list(zip(held.start, held.stop, strict=True))
            return counts + self._windows().sum(products(self._theta), counting, [values], segment)
        begin = torch.minimum(self._ends, sorted_ends)
        starts, stops = self._gather(values, begin, length) * more.sign_()
        return counts + stops - starts

    def _gather(self, values: Tensor, begin: Tensor, length: Tensor) -> Tensor:
        """Counts over segments of entries of each value's group, (…, B, N, M) both."""
        (b, u, d), memory, model = self._theta.shape, self._contexts.memory, None
        row = begin + memory.address[self._own]
        if b * u > 1:
            replica = torch.arange(b, device=row.device)[:, None, None]
            row += replica * memory.rows.shape[1]
            model = (replica * u + self._model_of_round[:, None]).expand(row.shape).flatten()
        given = length.flatten(), values.expand(row.shape).flatten()
        rows, theta = memory.rows.view(-1, d), self._theta.reshape(b * u, d)
        return count_segments(rows, row.flatten(), *given, theta, model).view(row.shape)

    def _cost(self, compared: float) -> float:
        """The cost of so many comparisons, gathered or scanned."""
        return min(GATHER * compared, compared + GROUP * self._contexts.groups)

    def _scans(self, compared: float) -> bool:
        return self._cost(compared) < GATHER * compared
