"""The past as a rank sees it: the contexts in each round's window, scored by that round's model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from fairbandit.counting.contexts import Contexts
from fairbandit.counting.linear import LinearCounts
from fairbandit.counting.model import ScoringModel
from fairbandit.counting.scan import Windows, bounding, counting, products, scoring, summing
from fairbandit.errors import FairbanditError
from fairbandit.locks import without_locks

Of = Literal["score", "lower", "upper"]
"""What values are compared with: past scores, or past confidence bounds."""


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
                scores, or a window with rounds that are forgotten or not yet known.
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
        theta = self._model.theta
        score = scoring(self._model) if theta is None else products(theta)
        return self._windows.sum(score, summing(f), given, rounds=ages)

    def _own_with_ties(self) -> tuple[Tensor, Tensor]:
        if self._own_scores is None:
            raise FairbanditError("these are no candidates with scores of their own: give values")
        scores, ceiling = self._own_scores
        return scores, ceiling()

    def _count_le(self, values: Tensor, of: Of) -> Tensor:
        """See `count_le`."""
        model, theta = self._model, self._model.theta
        if of == "score" and theta is not None:
            window = self._own_ends, self._groups, self._model_of_round
            linear = LinearCounts(self._contexts, *window, theta, lambda: self._windows)
            return linear.count_le(values)
        score = scoring(model) if of == "score" else bounding(model, of == "upper")
        return self._windows.sum(score, counting, [values])

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
        if (last := int(stop[-1])) > contexts.rounds:
            raise FairbanditError(
                f"the window of a round ends at round {last}, of {contexts.rounds} that are known"
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
