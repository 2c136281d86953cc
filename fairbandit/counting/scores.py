"""Past scores: the contexts in each round's window, scored by the model of that round."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from fairbandit.counting.scan import Windows, count_chunk, linear_scores, model_scores, sum_chunk
from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import RewardModel
from fairbandit.estimators.ties import Approximate
from fairbandit.history.contexts import Contexts, Ints
from fairbandit.history.sorted_segment import SortedSegment

Of = Literal["score", "lower", "upper"]
"""The past quantity that values are compared with: scores, or confidence bounds."""

OF: tuple[str, ...] = get_args(Of)

# The costs of the ways to count, in units of one comparison in a chunked scan. They decide how
# scores are counted. Counts differ only if a past score is within rounding of its value.
SLICE = 150  # the slice of one value
SLICE_SCORE = 1.5  # one of the scores that slices are cut from
SLICE_COMPARISON = 0.25  # one comparison within a slice
SLICE_SCORES = 1 << 22  # the largest number of scores of a replica that slices are cut from
SCAN, SCAN_GROUP = 100_000, 25_000  # the start of a scan, and each of its groups
SEARCH = 1200  # the search of a sorted segment for one value
SEARCH_SETUP = 400  # the setup of a search, in values times d, since comparisons grow with d
RESCORE = 20  # the score of one sorted entry, computed again
SORT = 100  # the sorting of one entry
SORTED_COST = 150_000  # contexts are sorted only for a count that costs at least this
RETRY = (
    1.5  # sorting that did not pay is tried again for a count that costs this many times as much
)


class PastScores:
    """Past scores: contexts of each candidate's group in its round's window, scored by its model.

    The window of round t contains the contexts of rounds start + 1 … stop, where
    0 ≤ start ≤ stop < t. If the contexts have a `max_contexts` of m, a context counts only if it is
    also among the last m of its group before round t. Past scores are compared with values
    (B, N, K), a value for each candidate.

    Scores of linear models are counted in the way that costs least: windows are read as slices,
    scanned in chunks, or searched in a sorted segment, which the store keeps for later counts. All
    ways give the same counts, unless a past score is within rounding of a value.

    Args:
        contexts: the past contexts up to the last of the rounds.
        times, window: the N rounds t, (N,), and start and stop of their windows, (2, N), ascending.
        groups: the candidates' groups, (B, N, K) int64, −1 for an empty place.
        model, model_of_round: the U reward models, and the ascending numbers of the rounds' models.
        own: the candidates' own scores, (B, N, K); None if the values do not belong to candidates.
    """

    def __init__(
        self,
        contexts: Contexts,
        times: Ints,
        window: Ints,
        groups: Tensor,
        model: RewardModel,
        model_of_round: Ints,
        own: Approximate | None = None,
    ) -> None:
        self._contexts, self._times, self._window = contexts, times, window
        self._groups, self._model, self._model_of_round = groups, model, model_of_round
        self._own = own

    def of(self, groups: Tensor | None = None) -> PastScores:
        """Past scores in the same windows for values of groups (B, N, M), or of all G groups.

        They have no own scores, so that counts need explicit values.
        """
        if groups is None:
            return self._every
        models = self._model, self._model_of_round
        return type(self)(self._contexts, self._times, self._window, groups, *models)

    @cached_property
    def _every(self) -> PastScores:
        every = torch.arange(self._contexts.groups, device=self._groups.device)
        return self.of(every.expand(*self._groups.shape[:2], -1))

    @cached_property
    def count(self) -> Tensor:
        """The number of past scores of each candidate, (B, N, K) float64."""
        starts, stops = self._ends
        sizes = torch.from_numpy((stops - starts).astype(np.float64)).to(self._groups.device)
        return sizes.gather(2, self._groups.clamp(min=0)).masked_fill_(self._groups < 0, 0)

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """The mean and the variance of the past scores, (B, N, K) both; NaN without past scores.

        The divisor of the variance is `count`.
        """
        mean = self.sum(lambda old: old) / self.count
        return mean, self.sum(lambda old, mean: (old - mean) ** 2, mean) / self.count

    def count_le(self, values: Tensor | None = None, of: Of = "score") -> Tensor:
        """The number of past scores that are at most each candidate's value, (B, N, K) float64.

        Args:
            values: (B, N, K). Scores are compared with them exactly; comparisons with NaN are
                false. None compares with the candidate's own score, and past scores that tie with
                it count, too.
            of: "score"; "lower" or "upper" counts past confidence bounds instead of scores.

        Raises:
            FairbanditError: `of` is unknown, the reward model does not have confidence bounds,
                values are missing although there are no own scores, or a window contains rounds
                that are forgotten or not yet known.
        """
        if of not in OF:
            raise FairbanditError(f"of: expected one of {', '.join(OF)}; got {of!r}")
        if values is None:
            values = self._own_scores().greatest_tie
        theta = self._model.theta
        if of == "score" and theta is not None:
            return self._count_linear(values, theta)
        score = self._model.score
        if of != "score":
            score = lambda *given: self._model.bounds(*given)[of == "upper"]  # noqa: E731
        return self._windows.sum(model_scores(score), count_chunk, [values])

    def count_lt(self, values: Tensor | None = None, of: Of = "score") -> Tensor:
        """The number of past scores that are less than each candidate's value; see `count_le`.

        Without values, past scores that tie with the candidate's own score do not count.
        """
        if values is None:
            values = self._own_scores().least_tie
        return self.count_le(torch.nextafter(values, torch.full_like(values, -torch.inf)), of)

    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        """The sum of f(past score, *values) over the past contexts of each candidate, (B, N, K).

        Args:
            f: an elementwise function, real or boolean, of tensors that broadcast.
            values: further arguments of f, each (B, N, K).
            ages: whether f takes the age of each past context as its last argument: the number of
                rounds from the round of the context to the candidate's round, at least 1.
        """
        given = list(values)
        if ages:
            now = torch.from_numpy(self._times).to(self._groups.device)
            given.append(now[:, None].expand(self._groups.shape).to(torch.float64))
        theta = self._model.theta
        score = model_scores(self._model.score) if theta is None else linear_scores(theta)
        return self._windows.sum(score, sum_chunk(f), given, rounds=ages)

    def entries(self, place: int | None) -> Tensor:
        """The past contexts of the group of one pool's candidate, or of all groups, (n, d)."""
        ends = self._ends[:, 0, 0].T.tolist()
        groups = range(len(ends)) if place is None else [int(self._groups[0, 0, place])]
        return torch.cat([self._contexts.entries(group, *ends[group])[0] for group in groups])

    def _own_scores(self) -> Approximate:
        if self._own is None:
            raise FairbanditError("values are missing: these past scores have no own scores")
        return self._own

    def _count_linear(self, values: Tensor, theta: Tensor) -> Tensor:
        starts, stops = self._ends
        size = values.numel(), theta.shape[1]
        sliced, cost = self._cheapest(starts, stops, float(self.count.sum()), *size)
        counts = None if cost < SORTED_COST else self._count_sorted(values, theta, cost)
        if counts is not None:
            return counts.masked_fill_((self._groups < 0) | values.isnan(), 0)
        if sliced:
            return self._count_slices(values, theta, starts, stops)
        return self._windows.sum(linear_scores(theta), count_chunk, [values])

    def _cheapest(
        self, starts: Ints, stops: Ints, comparisons: float, values: int, models: int
    ) -> tuple[bool, float]:
        """Whether slices of windows cost less than a scan, and the cost of the cheaper way."""
        (b, g), on_host = self._contexts.total.shape, self._groups.device.type == "cpu"
        scores = float((stops[..., -1, :] - starts[..., 0, :]).sum()) * models
        sliced = SLICE * values + SLICE_SCORE * scores + SLICE_COMPARISON * comparisons
        if not on_host or scores > SLICE_SCORES * b:
            sliced = math.inf
        scanned = comparisons + SCAN + SCAN_GROUP * g
        return sliced < scanned, min(sliced, scanned)

    def _count_slices(self, values: Tensor, theta: Tensor, starts: Ints, stops: Ints) -> Tensor:
        """The ends, (B, N, G), never decrease from round to round."""
        memory, models, counts = self._contexts.memory, self._model_of_round.tolist(), list[Any]()
        lists = starts.tolist(), stops.tolist(), self._groups.tolist(), values.tolist()
        of_replicas = zip(*lists, strict=True)
        for b, (lows, highs, pools, of_pools) in enumerate(of_replicas):
            rows, weights, scores = memory.rows[b], theta[b], dict[int, Any]()
            of_rounds = zip(models, lows, highs, pools, of_pools, strict=True)
            for model, start, stop, members, of_pool in of_rounds:
                windows = dict[int, Any]()
                for group in {*members}:
                    low, address = lows[0][group], memory.addresses[group]
                    if group not in scores:  # under all models, in all windows
                        high = highs[-1][group] if group >= 0 else low
                        window = rows[address + low : address + high]
                        scores[group] = linear(weights, window).numpy(force=True)
                    windows[group] = scores[group][model, start[group] - low : stop[group] - low]
                for group, value in zip(members, of_pool, strict=True):
                    counts.append(np.count_nonzero(windows[group] <= value))
        found = np.array(counts, np.float64).reshape(values.shape)
        return torch.from_numpy(found).to(values.device)

    def _count_sorted(self, values: Tensor, theta: Tensor, cost: float) -> Tensor | None:
        """None if a segment does not pay beside `cost`, the cost of the cheapest other way."""
        memory = self._contexts.memory
        budget = cost - SEARCH * (SEARCH_SETUP / theta.shape[2] + values.numel())
        # known not to pay, or a search alone costs a third of the other way
        if cost < memory.refused or budget < cost * 2 / 3:
            return None
        segment, counts = memory.sorted, None
        # the entries of each group that all windows have in common
        common = [(start, max(start, stop)) for _, start, stop, _ in self._windows.limits]
        if segment is None and not any(start < stop for start, stop in common):
            return None
        price = math.inf if segment is None else SORT * len(theta) * segment.length
        if segment is not None and segment.spent <= price:
            counts = self._search(segment, values, theta, cost, budget)
        if counts is None and (segment is None or segment.saved >= segment.spent + price):
            segment = memory.sorted = None  # it is freed before the new one is made
            contexts = [self._contexts.entries(at, *ends) for at, ends in enumerate(common)]
            segment = SortedSegment(contexts, [low for low, _ in common], theta[:, -1])
            if segment.exact:
                counts = self._search(segment, values, theta, cost, budget)
        if counts is None:
            memory.refused, segment = RETRY * cost, None
        memory.sorted = segment
        return counts

    def _search(
        self, segment: SortedSegment, values: Tensor, theta: Tensor, cost: float, budget: float
    ) -> Tensor | None:
        # The count in the window minus the count in the segment is the signed count between their
        # stops minus the signed count between their starts.
        groups, ends = self._groups.clamp(min=0), segment.ends[:, None, None]
        own_ends = self._device_ends.gather(3, groups.expand(2, -1, -1, -1))
        more = own_ends - torch.from_numpy(segment.ends).to(groups.device)[:, groups]
        low, high = np.minimum(self._ends, ends), np.maximum(self._ends, ends)
        outside = float(more.abs().masked_fill_(self._groups < 0, 0).sum())
        size = more.numel(), theta.shape[1]
        sliced, outside_cost = self._cheapest(low, high, outside, *size)
        models = torch.from_numpy(self._model_of_round)
        found = segment.count_le(
            groups, values, models.to(groups.device), theta, (budget - outside_cost) / RESCORE
        )
        if found is None:
            return None
        counts, again = found
        segment.saved += min(budget, cost)
        segment.spent += outside_cost + RESCORE * again
        if not sliced:
            skipped = list(zip(segment.start, segment.stop, strict=True))
            return counts + self._windows.sum(linear_scores(theta), count_chunk, [values], skipped)
        sides = zip(low, high, strict=True)
        between = [self._count_slices(values, theta, *side) for side in sides]
        starts, stops = torch.stack(between) * more.sign_()
        return counts + stops - starts

    @cached_property
    def _ends(self) -> Ints:
        """Start and stop of each window in each group, entries start … stop − 1: (2, B, N, G)."""
        contexts, least, last = self._contexts, int(self._window[0, 0]), int(self._window[1, -1])
        if least < contexts.forgotten or last > contexts.rounds:
            raise FairbanditError(
                f"a rank window holds rounds {least + 1} to {last}; known are "
                f"{contexts.forgotten + 1} to {contexts.rounds}: rounds before the start of an "
                "earlier window are forgotten"
            )
        ends = contexts.up_to(self._window)
        if contexts.max_contexts is not None:
            now = contexts.up_to(self._times - 1)
            ends[0] = np.maximum(ends[0], now - contexts.max_contexts).clip(max=ends[1])
        return ends

    @cached_property
    def _device_ends(self) -> Tensor:
        return torch.from_numpy(self._ends).to(self._groups.device)

    @cached_property
    def _windows(self) -> Windows:
        models = self._model_of_round, len(self._model)
        return Windows(self._contexts, self._device_ends, self._groups, *models)
