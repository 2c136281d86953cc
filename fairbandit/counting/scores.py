"""The past as a rank sees it: the contexts in each round's window, scored by that round's model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from fairbandit.counting.contexts import Contexts
from fairbandit.counting.model import ScoringModel
from fairbandit.counting.scan import Windows, bounding, counting, limits, scoring, summing
from fairbandit.counting.segments import count_segments
from fairbandit.counting.sorted_segment import SortedSegment
from fairbandit.errors import FairbanditError
from fairbandit.locks import without_locks

Of = Literal["score", "lower", "upper"]
"""What values are compared with: past scores, or past confidence bounds."""

# What the ways to count cost. The unit is one comparison in a chunked scan. Costs decide how to
# count, and never change the counts.

GATHER = 10
"""One comparison of segment counts, which gather the contexts."""

GROUP = 25_000
"""Beginning the scan of one more group."""

SORT = 60
"""Sorting one more context."""

SEARCH, SEARCH_SETUP = 600, 400
"""Searching a sorted segment for one more value; and for any, in values, times d features.

Comparisons become cheaper, in proportion, as there are more features; this does not."""


@without_locks
class PastScores:
    """The past contexts of each candidate's group in its round's window, scored by its model.

    The past of round t is its window: the contexts of rounds start + 1 … stop, where
    0 ≤ start ≤ stop < t. If the contexts have a `max_contexts` of m, only those of them count that
    are among the last m of their group before round t. Whatever is compared with them is (B, N, K),
    one value for each candidate.

    Args:
        contexts: the past contexts up to the last of the rounds.
        first: the first of N consecutive rounds, from 1.
        start, stop: the window of each round, (N,) int64, both nondecreasing.
        groups: the candidates' groups, (B, N, K) int64, −1 for an empty place.
        model: the U reward models of the rounds.
        model_of_round: which model each round uses, (N,) int64, nondecreasing.
        own: the candidates' own scores, and what gives the largest values with which they tie, both
            (B, N, K); None if the values are not those of candidates.
    """

    def __init__(
        self,
        contexts: Contexts,
        first: int,
        start: Tensor,
        stop: Tensor,
        groups: Tensor,
        model: ScoringModel,
        model_of_round: Tensor,
        own: tuple[Tensor, Callable[[], Tensor]] | None = None,
    ) -> None:
        self._contexts, self._first, self._start, self._stop = contexts, first, start, stop
        self._groups, self._model, self._model_of_round = groups, model, model_of_round
        self._own_scores = own

    def of(self, groups: Tensor) -> PastScores:
        """The same rounds' windows, for values of other groups than the candidates'.

        Args:
            groups: (B, N, M) int64 for any M, −1 for none.

        Returns:
            Past scores that are asked about (B, N, M) values.
        """
        window, models = (self._start, self._stop), (self._model, self._model_of_round)
        return type(self)(self._contexts, self._first, *window, groups, *models)

    @cached_property
    def every(self) -> PastScores:
        """The same rounds' windows, for one value of every group: M = G."""
        every = torch.arange(self._contexts.groups, device=self._groups.device)
        return self.of(every.expand(*self._groups.shape[:2], -1))

    @cached_property
    def count(self) -> Tensor:
        """How many past contexts of its group each candidate's window holds: (B, N, K) float64."""
        start, stop = self._own_ends
        return (stop - start).masked_fill_(self._groups < 0, 0).to(torch.float64)

    @cached_property
    def mean(self) -> Tensor:
        """The mean of the past scores, (B, N, K); NaN if there are none."""
        return self.sum(lambda old: old) / self.count

    @cached_property
    def variance(self) -> Tensor:
        """The variance of the past scores, (B, N, K); NaN if there are none.

        The divisor is their number, `count`.
        """
        return self.sum(lambda old, mean: (old - mean) ** 2, self.mean) / self.count

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
                scores, or a window that starts in rounds that are forgotten.
        """
        if of not in get_args(Of):
            raise FairbanditError(f"of: expected one of {', '.join(get_args(Of))}; got {of!r}")
        return self._count_le(self._own_with_ties()[1] if values is None else values, of)

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
            scores, ceiling = self._own_with_ties()
            values = 2 * scores - ceiling  # as far below the scores as the ceiling is above
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
            n = len(self._start)
            now = torch.arange(self._first, self._first + n, device=self._groups.device)
            given.append(now[:, None].expand(self._groups.shape).to(torch.float64))
        return self._windows.sum(scoring(self._model), summing(f), given, rounds=ages)

    def _own_with_ties(self) -> tuple[Tensor, Tensor]:
        if self._own_scores is None:
            raise FairbanditError("these are no candidates with scores of their own: give values")
        scores, ceiling = self._own_scores
        return scores, ceiling()

    def _count_le(self, values: Tensor, of: Of) -> Tensor:
        """See `count_le`."""
        if of != "score":
            score = bounding(self._model, of == "upper")
            return self._windows.sum(score, counting, [values])
        theta = self._model.theta
        if theta is None:
            return self._windows.sum(scoring(self._model), counting, [values])
        counts = self._count_sorted(values, theta)
        if counts is None:
            counts = self._count_rest(values, theta, None)
        return counts.masked_fill((self._groups < 0) | values.isnan(), 0)

    def _count_sorted(self, values: Tensor, theta: Tensor) -> Tensor | None:
        """Counts by a sorted segment and a scan of the rest; None if a scan of all costs less.

        As windows move on and models drift, more entries outside the segment are scanned, and more
        inside are scored again. Once this has cost as much as sorting, the common part of all
        windows is sorted once more, if sorting has paid.
        """
        memory, scan = self._contexts.memory, self._cost(float(self.count.sum()))
        budget = scan - SEARCH * (SEARCH_SETUP / theta.shape[2] + values.numel())
        if scan < memory.not_worth_sorting or budget < scan * 2 / 3:
            return None
        if (held := memory.sorted) is not None:
            price = SORT * len(theta) * held.length
            counts = self._count_by(held, values, theta, budget) if held.spent <= price else None
            if counts is not None:
                return counts
        if held is None or held.saved >= held.spent + price:
            common = [
                (limit.greatest_start, max(limit.greatest_start, limit.least_stop))
                for limit in limits(self._ends)
            ]
            if all(start == stop for start, stop in common):
                return None
            contexts = [self._contexts.entries(at, *ends) for at, ends in enumerate(common)]
            held = SortedSegment(contexts, [start for start, _ in common], theta[:, -1])
            counts = self._count_by(held, values, theta, budget) if held.exact else None
            if counts is not None:
                memory.sorted = held
                return counts
        memory.sorted, memory.not_worth_sorting = None, 1.5 * scan
        return None

    def _count_by(
        self, held: SortedSegment, values: Tensor, theta: Tensor, budget: float
    ) -> Tensor | None:
        """Counts by a sorted segment and a scan of the rest; None if that exceeds a budget."""
        beside = self._cost(float(self._rest(held)[1].sum()))
        groups, models = self._groups.clamp(min=0), self._model_of_round
        found = held.count_le(groups, values, models, theta, (budget - beside) / GATHER)
        if found is None:
            return None
        counts, again = found
        held.saved += budget
        held.spent += beside + GATHER * again
        return counts + self._count_rest(values, theta, held)

    def _count_rest(self, values: Tensor, theta: Tensor, held: SortedSegment | None) -> Tensor:
        """Counts over the windows minus a sorted segment."""
        begin, length, sign = self._rest(held)
        if self._cost(compared := float(length.sum())) < GATHER * compared:
            segment = None if held is None else list(zip(held.start, held.stop, strict=True))
            return self._windows.sum(scoring(self._model), counting, [values], segment)
        (b, u, d), memory, model = theta.shape, self._contexts.memory, None
        row = begin + memory.address[self._groups]
        if b > 1:
            row += torch.arange(b, device=row.device)[:, None, None] * memory.rows.shape[1]
        if b * u > 1:
            first = torch.arange(b, device=row.device)[:, None, None] * u
            model = (first + self._model_of_round[:, None]).expand(row.shape).flatten()
        counts = count_segments(
            memory.rows.view(-1, d),
            row.flatten(),
            length.flatten(),
            values.expand(row.shape).flatten(),
            theta.reshape(b * u, d),
            model,
        )
        return (counts.view(row.shape) * sign).sum(0)

    def _rest(self, held: SortedSegment | None) -> tuple[Tensor, Tensor, Tensor]:
        """The windows minus a sorted segment, as segments of entries.

        They are what lies between the two stops, minus what lies between the two starts.

        Returns:
            The first entry and the length of each, (2, B, N, M) int64; and what each counts, 1 or
            −1. (1, B, N, M) if there is no sorted segment.
        """
        start, stop = self._own_ends
        upper, lower = stop[None], start[None]
        if held is not None:
            first, last = held.ends[:, self._groups]
            upper, lower = torch.stack([first, stop]), torch.stack([start, last])
        more = upper - lower
        length = more.abs().masked_fill_(self._groups < 0, 0)
        return torch.minimum(upper, lower), length, more.sign()

    def _cost(self, compared: float) -> float:
        """The cost of so many comparisons, in whichever way costs less."""
        return min(GATHER * compared, compared + GROUP * self._contexts.groups)

    @cached_property
    def _ends(self) -> Tensor:
        """Start and stop of each window in every group, entries start … stop − 1: (2, b, N, G).

        b is 1 if all replicas are alike.
        """
        contexts, start, stop = self._contexts, self._start, self._stop
        if (least := int(start[0])) < contexts.forgotten:
            raise FairbanditError(
                f"the window of a round starts at round {least + 1}, and rounds 1 to "
                f"{contexts.forgotten} are forgotten: the start of a window must never move back"
            )
        if contexts.max_contexts is None:
            return contexts.up_to(torch.stack([start, stop]))
        before = torch.arange(self._first - 1, self._first + len(start) - 1, device=start.device)
        start, stop, now = contexts.up_to(torch.stack([start, stop, before]))
        return torch.stack([torch.maximum(start, now - contexts.max_contexts).minimum(stop), stop])

    @cached_property
    def _own_ends(self) -> Tensor:
        """The same in the group of each value, (2, B, N, M)."""
        own = self._groups.clamp(min=0).expand(2, -1, -1, -1)
        return self._ends.expand(-1, own.shape[1], -1, -1).gather(3, own)

    @cached_property
    def _windows(self) -> Windows:
        models = self._model_of_round, len(self._model)
        return Windows(self._contexts, self._ends, self._groups, *models)
