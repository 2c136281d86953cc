"""The past as a rank sees it: the contexts in each round's window, scored by that round's model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from fairbandit.counting import ContextStore, PastScores, Query
from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Problem
from fairbandit.parts.model import RewardModel

Of = Literal["score", "lower", "upper"]
"""What values are compared with: past scores, or past confidence bounds."""


def context_store(problem: Problem, memory: int | None) -> ContextStore:
    """An empty store of past contexts.

    Args:
        problem: sizes, device and dtype.
        memory: how many of its last contexts count of each group; None counts all.

    Raises:
        FairbanditError: a memory that is no whole number of at least 1.
    """
    if memory is not None and not (type(memory) is int and memory >= 1):
        raise FairbanditError(
            f"the memory of a rank: expected a whole number of at least 1, or None; got {memory!r}"
        )
    empty = problem.zeros(problem.replicas, 0, problem.features)
    return ContextStore(empty, problem.groups, memory)


class Past:
    """The past contexts of each candidate's group in its round's window, scored by its model.

    Whatever is compared with them is (B, N, K), one value for each candidate.

    Args:
        store: the past contexts up to the last of the rounds.
        first: the first of N rounds.
        window: start and stop of each round's window, (N,) int64 both.
        groups: the candidates' groups, (B, N, K) int64, −1 for an empty place.
        model: the U reward models of the rounds.
        of_round: which model each round uses, (N,) int64, nondecreasing.
        own: the candidates' own scores, and what gives their upper scores, both (B, N, K); None if
            the values are not those of candidates.
    """

    def __init__(
        self,
        store: ContextStore,
        first: int,
        window: tuple[Tensor, Tensor],
        groups: Tensor,
        model: RewardModel,
        of_round: Tensor,
        own: tuple[Tensor, Callable[[], Tensor]] | None = None,
    ) -> None:
        self._store, self._groups, self._model, self._own = store, groups, model, own
        self._query = Query(first, *window, model, of_round)
        self._scores = store.past_scores(self._query, groups)

    def of(self, groups: Tensor) -> Past:
        """The same rounds' windows, for values of other groups than the candidates'.

        Args:
            groups: (B, N, M) int64 for any M, −1 for none.

        Returns:
            A past that is asked about (B, N, M) values.
        """
        asked = self._query
        window = asked.start, asked.stop
        return Past(self._store, asked.first, window, groups, self._model, asked.of_round)

    @cached_property
    def every(self) -> Past:
        """The same rounds' windows, for one value of every group: M = G."""
        every = torch.arange(self._store.groups, device=self._groups.device)
        return self.of(every.expand(*self._groups.shape[:2], -1))

    @cached_property
    def count(self) -> Tensor:
        """How many past contexts of its group each candidate's window holds: (B, N, K) float64."""
        return self._scores.count

    @cached_property
    def mean(self) -> Tensor:
        """The mean of the past scores, (B, N, K); NaN if there are none."""
        return self.sum(lambda old: old) / self.count

    @cached_property
    def variance(self) -> Tensor:
        """For each candidate, the variance of the past scores of its group, (B, N, K).

        The divisor is their number, `count`; where it is 0, the entry is NaN.
        """
        return self.sum(lambda old, mean: (old - mean) ** 2, self.mean) / self.count

    def count_le(self, values: Tensor, of: Of = "score") -> Tensor:
        """How many past scores are less than or equal to a value of the candidate.

        `count_le(candidates.scores)` counts the past scores that tie with the candidate's too; see
        `maths.ties`. Other values, equal ones included, compare exactly.

        Args:
            values: (B, N, K).
            of: "score", or "lower" or "upper" to count past confidence bounds instead of scores.

        Returns:
            Counts, (B, N, K) float64.

        Raises:
            FairbanditError: the reward model has no confidence bounds, or no such `of`.
        """
        if of == "score" and self._own is not None and values is self._own[0]:
            return self._scores.count_le(self._own[1]())
        return self._asked(of).count_le(values)

    def count_lt(self, values: Tensor, of: Of = "score") -> Tensor:
        """How many past scores are less than a value of the candidate.

        `count_lt(candidates.scores)` leaves out the past scores that tie with the candidate's; see
        `maths.ties`. Other values, equal ones included, compare exactly.

        Args:
            values: (B, N, K).
            of: as for `count_le`.

        Returns:
            Counts, (B, N, K) float64.

        Raises:
            FairbanditError: the reward model has no confidence bounds, or no such `of`.
        """
        if of == "score" and self._own is not None and values is self._own[0]:
            values = 2 * values - self._own[1]()  # as far below the scores as upper scores above
        below = torch.nextafter(values, torch.full_like(values, -torch.inf))
        return self._asked(of).count_le(below)

    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        """The sum of f(past score, *values) over the past contexts of each candidate.

        Args:
            f: an elementwise function, real or boolean, of tensors that broadcast against each
                other.
            values: what else f needs of the candidate, each (B, N, K).
            ages: whether f also gets, as its last argument, a tensor of the shape of the past
                scores: how many rounds before the candidate's round each past context came.

        Returns:
            Sums, (B, N, K) float64.
        """
        return self._scores.sum(f, *values, ages=ages)

    def _asked(self, of: Of) -> PastScores:
        if of not in get_args(Of):
            raise FairbanditError(f"of: expected one of {', '.join(get_args(Of))}; got {of!r}")
        if of == "score":
            return self._scores
        return self._scores.under(_Bound(self._model, of))


class _Bound:
    """A confidence bound of a reward model, as a model whose scores are the bounds.

    Args:
        model: the reward model.
        of: "lower" or "upper".
    """

    theta = None

    def __init__(self, model: RewardModel, of: Of) -> None:
        self._model, self._of = model, of

    def __len__(self) -> int:
        return len(self._model)

    def of_features(self, features: Tensor) -> _Bound | None:
        """The bound for contexts of some features; see `ScoringModel`."""
        some = self._model.of_features(features)
        return None if some is None else _Bound(some, self._of)

    def score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """The bounds of contexts; see `ScoringModel`."""
        low, high = self._model.bounds(contexts, groups)
        return low if self._of == "lower" else high
