"""The past as a rank sees it: the contexts in each round's window, scored by that round's model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from fairbandit.counting.contexts import Contexts, Ints
from fairbandit.counting.scan import Windows, counting, products, scoring, summing
from fairbandit.counting.segments import count_segments
from fairbandit.counting.sorted_segment import SortedSegment
from fairbandit.errors import FairbanditError
from fairbandit.locks import cached_property
from fairbandit.models import RewardModel
from fairbandit.ties import Approximate

Of = Literal["score", "lower", "upper"]
"""What values are compared with: past scores, or past confidence bounds."""

GATHER = 10
"""The cost of one comparison where contexts are gathered; in a chunked scan it is 1. Costs decide
how scores of linear models are counted, and never change the counts."""

SLICES = 1 << 16
"""For one pool whose windows hold at most so many entries, each is read as a slice."""

SCAN, GROUP = 100_000, 25_000
"""The cost of beginning a scan, and of beginning one more group of it."""

AGAIN = 20
"""The cost of scoring one sorted context again."""

SORT = 100
"""The cost of sorting one more context."""

SEARCH, SEARCH_SETUP = 1200, 400
"""The cost of searching a sorted segment for one more value; and for any, in values, times d.

Comparisons become cheaper, in proportion, as there are more features; this does not."""


class PastScores:
    """The past contexts of each candidate's group in its round's window, scored by its model.

    The past of round t is its window: the contexts of rounds start + 1 … stop, where
    0 ≤ start ≤ stop < t. If the contexts have a `max_contexts` of m, only those of them count that
    are among the last m of their group before round t. Whatever is compared with them is (B, N, K),
    one value for each candidate.

    Under linear models the windows of one pool are read as slices. Else few entries are gathered,
    more are scanned in chunks, and long windows are searched in a sorted segment, outside which the
    entries are gathered or scanned.

    Args:
        contexts: the past contexts up to the last of the rounds.
        first: the first of N consecutive rounds, from 1.
        window: start and stop of each round's, (2, N), both nondecreasing.
        groups: the candidates' groups, (B, N, K) int64, −1 for an empty place.
        model: the U reward models of the rounds.
        model_of_round: which model each round uses, (N,) int64, nondecreasing.
        own: the candidates' own scores, (B, N, K); None if the values are not those of candidates.
    """

    def __init__(
        self,
        contexts: Contexts,
        first: int,
        window: Ints,
        groups: Tensor,
        model: RewardModel,
        model_of_round: Tensor,
        own: Approximate | None = None,
    ) -> None:
        self._contexts, self._first, self._window = contexts, first, window
        self._groups, self._model, self._model_of_round = groups, model, model_of_round
        self._own = own

    def of(self, groups: Tensor | None = None) -> PastScores:
        """The same rounds' windows, for values of other groups than the candidates'.

        Args:
            groups: (B, N, M) int64 for any M, −1 for none; None asks for every group, M = G.

        Returns:
            Past scores that are asked about (B, N, M) values.
        """
        if groups is None:
            return self._every
        models = self._model, self._model_of_round
        return type(self)(self._contexts, self._first, self._window, groups, *models)

    @cached_property
    def _every(self) -> PastScores:
        every = torch.arange(self._contexts.groups, device=self._groups.device)
        return self.of(every.expand(*self._groups.shape[:2], -1))

    @cached_property
    def count(self) -> Tensor:
        """How many past contexts of its group each candidate's window holds: (B, N, K) float64."""
        if self._pool is not None:
            start, stop, groups = self._pool
            sizes = [float(stop[group] - start[group]) if group >= 0 else 0.0 for group in groups]
            return torch.from_numpy(np.array([[sizes]]))
        start_, stop_ = self._own_ends
        return (stop_ - start_).masked_fill_(self._groups < 0, 0).to(torch.float64)

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """The mean and the variance of the past scores, (B, N, K) both; NaN if there are none.

        The divisor of the variance is their number, `count`.
        """
        mean = self.sum(lambda old: old) / self.count
        return mean, self.sum(lambda old, mean: (old - mean) ** 2, mean) / self.count

    def count_le(self, values: Tensor | None = None, of: Of = "score") -> Tensor:
        """How many past scores are less than or equal to a value of the candidate.

        Args:
            values: (B, N, K); they compare exactly, and nothing is at most NaN. None stands for the
                candidate's own score, with which past scores that tie count too.
            of: "score", or "lower" or "upper" to count past confidence bounds instead of scores.

        Returns:
            Counts, (B, N, K) float64.

        Raises:
            FairbanditError: the reward model has no confidence bounds, or no such `of`, or no own
                scores, or a window with rounds that are forgotten or not yet known.
        """
        if of not in get_args(Of):
            raise FairbanditError(f"of: expected one of {', '.join(get_args(Of))}; got {of!r}")
        if values is None:
            values = self._own_scores().greatest_tie
        theta = self._model.theta
        if of == "score" and theta is not None:
            return self._count_linear(values, theta)
        score = self._model.score
        if of != "score":
            score = lambda *given: self._model.bounds(*given)[of == "upper"]  # noqa: E731
        return self._windows.sum(scoring(score), counting, [values])

    def count_lt(self, values: Tensor | None = None, of: Of = "score") -> Tensor:
        """How many past scores are less than a value of the candidate.

        Args:
            values: as for `count_le`; past scores that tie with the candidate's own do not count.
            of: as for `count_le`.

        Returns:
            Counts, (B, N, K) float64.

        Raises:
            FairbanditError: as for `count_le`.
        """
        if values is None:
            values = self._own_scores().least_tie
        return self.count_le(torch.nextafter(values, torch.full_like(values, -torch.inf)), of)

    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        """The sum of f(past score, *values) over the past contexts of each candidate.

        Args:
            f: an elementwise function, real or boolean, of tensors that broadcast against each
                other.
            values: what else f needs of the candidate, each (B, N, K).
            ages: whether f also gets, as its last argument, a tensor of the shape of the past
                scores: how many rounds before the candidate's round, at least 1, each past context
                came.

        Returns:
            Sums, (B, N, K) float64.
        """
        given = list(values)
        if ages:
            n = self._groups.shape[1]
            now = torch.arange(self._first, self._first + n, device=self._groups.device)
            given.append(now[:, None].expand(self._groups.shape).to(torch.float64))
        theta = self._model.theta
        score = scoring(self._model.score) if theta is None else products(theta)
        return self._windows.sum(score, summing(f), given, rounds=ages)

    def _own_scores(self) -> Approximate:
        if self._own is None:
            raise FairbanditError("these are no candidates with scores of their own: give values")
        return self._own

    def _count_linear(self, values: Tensor, theta: Tensor) -> Tensor:
        if self._pool is not None:
            start_, stop_, groups = self._pool
            if sum(stop_[group] - start_[group] for group in set(groups) - {-1}) <= SLICES:
                return self._count_slices(values, theta, *self._pool)
        start, stop = self._own_ends
        length = (stop - start).masked_fill_(self._groups < 0, 0)
        cost = self._cost(compared := float(length.sum()))
        counts = self._count_sorted(values, theta, cost)
        if counts is not None:
            return counts.masked_fill_((self._groups < 0) | values.isnan(), 0)
        if cost < GATHER * compared:
            return self._windows.sum(products(theta), counting, [values])
        return self._gather(values, theta, start, length)

    @cached_property
    def _pool(self) -> tuple[list[int], list[int], list[int]] | None:
        """Start and stop of the window in every group, and the groups, of one pool on the host."""
        if self._groups.shape[:2] != (1, 1) or self._groups.device.type != "cpu":
            return None
        (start, stop), groups = self._ends[:, 0, 0].tolist(), self._groups[0, 0].tolist()
        return start, stop, groups

    def _count_slices(
        self, values: Tensor, theta: Tensor, start: list[int], stop: list[int], groups: list[int]
    ) -> Tensor:
        """Counts for one pool, whose windows are slices."""
        memory, weights, past = self._contexts.memory, theta[0, 0], dict[int, Any]()
        rows = memory.rows[0]
        for group in set(groups) - {-1}:
            low, high = (memory.addresses[group] + end[group] for end in (start, stop))
            past[group] = torch.mv(rows[low:high], weights).numpy()
        counts = [
            float(np.count_nonzero(past[group] <= value)) if group >= 0 else 0.0
            for group, value in zip(groups, values[0, 0].tolist(), strict=True)
        ]
        return torch.from_numpy(np.array([[counts]]))

    def _count_sorted(self, values: Tensor, theta: Tensor, scan: float) -> Tensor | None:
        """Counts by a sorted segment and what is beside it; None if a scan of all costs less.

        As windows move on and models drift, more entries beside the segment are scanned, and more
        inside are scored again. Once this has cost as much as sorting, the common part of all
        windows is sorted once more, if sorting has paid.
        """
        memory, (b, _, d) = self._contexts.memory, theta.shape
        budget = scan - SEARCH * (SEARCH_SETUP / d + values.numel())
        if scan < memory.not_worth_sorting or budget < scan * 2 / 3:
            return None
        held, counts, paid = memory.sorted, None, True
        if held is not None:
            price = SORT * b * held.length
            if held.spent <= price:
                counts = self._count_by(held, values, theta, budget)
            paid = held.saved >= held.spent + price
        if counts is None and paid:
            limits = [(low, max(low, high)) for _, low, high, _ in self._windows.limits]
            if all(low == high for low, high in limits):
                return None
            held = memory.sorted = None  # it is freed before the new one is made
            contexts = [self._contexts.entries(at, *ends) for at, ends in enumerate(limits)]
            held = SortedSegment(contexts, [low for low, _ in limits], theta[:, -1])
            counts = self._count_by(held, values, theta, budget) if held.exact else None
        if counts is None:
            held, memory.not_worth_sorting = None, 1.5 * scan
        memory.sorted = held
        return counts

    def _count_by(
        self, held: SortedSegment, values: Tensor, theta: Tensor, budget: float
    ) -> Tensor | None:
        """Counts by a sorted segment and what is beside it; None if that exceeds a budget."""
        # the windows minus the segment are what lies between the stops, minus what lies between
        # the starts; either may be negative
        own = self._groups.clamp(min=0)
        sorted_ends = torch.from_numpy(held.ends).to(own.device)[:, own]
        more = self._own_ends - sorted_ends
        length = more.abs().masked_fill_(self._groups < 0, 0)
        cost = self._cost(compared := float(length.sum()))
        left = (budget - cost) / AGAIN
        found = held.count_le(own, values, self._model_of_round, theta, left)
        if found is None:
            return None
        counts, again = found
        held.saved += budget
        held.spent += cost + AGAIN * again
        if cost < GATHER * compared:
            segment = list(zip(held.start, held.stop, strict=True))
            return counts + self._windows.sum(products(theta), counting, [values], segment)
        begin = torch.minimum(self._own_ends, sorted_ends)
        starts, stops = self._gather(values, theta, begin, length) * more.sign_()
        return counts + stops - starts

    def _gather(self, values: Tensor, theta: Tensor, begin: Tensor, length: Tensor) -> Tensor:
        """Counts over segments of entries of each value's group, (…, B, N, M) both."""
        (b, u, d), memory, model = theta.shape, self._contexts.memory, None
        address = torch.from_numpy(memory.address).to(begin.device)[:, None]
        own = self._groups.clamp(min=0)
        row = begin + address.expand(-1, own.shape[1], -1).gather(2, own)
        if b * u > 1:
            replica = torch.arange(b, device=row.device)[:, None, None]
            model = (replica * u + self._model_of_round[:, None]).expand(row.shape).flatten()
        given = length.flatten(), values.expand(row.shape).flatten()
        rows, weights = memory.rows.view(-1, d), theta.reshape(b * u, d)
        return count_segments(rows, row.flatten(), *given, weights, model).view(row.shape)

    def _cost(self, compared: float) -> float:
        """The cost of so many comparisons, gathered or scanned."""
        return min(GATHER * compared, compared + SCAN + GROUP * self._contexts.groups)

    @cached_property
    def _ends(self) -> Ints:
        """Start and stop of each window in every group, entries start … stop − 1: (2, B, N, G)."""
        contexts, first = self._contexts, self._first
        least, last = int(self._window[0, 0]), int(self._window[1, -1])
        if least < contexts.forgotten or last > contexts.rounds:
            raise FairbanditError(
                f"a rank window holds rounds {least + 1} to {last}; known are "
                f"{contexts.forgotten + 1} to {contexts.rounds}: rounds before the start of an "
                "earlier window are forgotten"
            )
        ends = contexts.up_to(self._window)
        if contexts.max_contexts is not None:
            now = contexts.up_to(np.arange(first - 1, first - 1 + self._window.shape[1]))
            ends[0] = np.maximum(ends[0], now - contexts.max_contexts).clip(max=ends[1])
        return ends

    @cached_property
    def _own_ends(self) -> Tensor:
        """The same in the group of each value, (2, B, N, M)."""
        return self._device_ends.gather(3, self._groups.clamp(min=0).expand(2, -1, -1, -1))

    @cached_property
    def _device_ends(self) -> Tensor:
        return torch.from_numpy(self._ends).to(self._groups.device)

    @cached_property
    def _windows(self) -> Windows:
        models = self._model_of_round, len(self._model)
        return Windows(self._contexts, self._device_ends, self._groups, *models)
