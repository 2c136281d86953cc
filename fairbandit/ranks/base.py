"""Ranks turn the scores of candidates into the index to be maximised."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fairbandit.counting import PastScores
from fairbandit.errors import FairbanditError, typed
from fairbandit.estimators import Models
from fairbandit.estimators.base import NoBounds, all_finite
from fairbandit.estimators.ties import Approximate
from fairbandit.history import History, Outcomes
from fairbandit.registry import Part, base
from fairbandit.splits import Plan
from fairbandit.streams import Purpose


class Scored:
    """The scored candidates of N consecutive rounds, and the past that ranks may read.

    Attributes:
        problem: the problem that is played.
        plan, models: the past rounds that each round reads, and the reward models of the rounds.
        first: the first of the rounds, by which draws are addressed.
        contexts, groups: the pools, (B, N, K, d) and (B, N, K) int64, −1 for an empty place.
        sizes: the number of candidates of each pool, (B, N), a NumPy array.
        present: whether each place holds a candidate, (B, N, K) bool.
        scores: each candidate's score under its own round's model, (B, N, K).
    """

    def __init__(self, history: History, plan: Plan, models: Models) -> None:
        self.problem, self.plan, self.models = history.problem, plan, models
        self.first, contexts, groups, self.sizes = history.block
        self.contexts, self.groups = contexts, groups
        self._history = history
        self.present = groups >= 0
        self._model = models.of_rounds
        self.scores = self._model.approximate(contexts, groups)

    @cached_property
    def rounds(self) -> Tensor:
        """The round number that each pool is decided with, (N,) int64; see `Plan`."""
        return torch.from_numpy(self.plan.rounds).to(self.groups.device)

    @cached_property
    def rank_window(self) -> tuple[Tensor, Tensor]:
        """Start and stop of each round's rank window, rounds start + 1 … stop, (N,) int64 both."""
        start, stop = self.plan.rank_start, self.plan.rank_stop
        return self.rounds.new_tensor(start), self.rounds.new_tensor(stop)

    @cached_property
    def tolerance(self) -> Tensor:
        """The distance up to which scores of the same pool may tie, (B, N, 1)."""
        slack = torch.where(self.present, self.scores.slack, 0.0)
        return 2 * slack.amax(2, keepdim=True)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds of the true rewards, (B, N, K) each.

        They are −∞ and ∞ while the reward model has not learned from a reward. Raises `NoBounds`.
        """
        low, high = self._model.bounds(self.contexts, self.groups)
        return self.models.if_informed(low, -torch.inf), self.models.if_informed(high, torch.inf)

    @cached_property
    def past(self) -> PastScores:
        """The past contexts of each candidate's group in the rank window of its round.

        The rank must declare the need `contexts`.
        """
        contexts = self._history.contexts
        if contexts is None:
            raise FairbanditError('this rank reads past contexts: declare needs = {"contexts"}')
        window = np.array([self.plan.rank_start, self.plan.rank_stop])
        models = self.models.distinct, self.models.of_round
        return PastScores(contexts, self.plan.rounds, window, self.groups, *models, self.scores)

    @property
    def outcomes(self) -> Outcomes:
        """The known picks with their rewards, if a part of the policy needs rewards.

        In a block they include guessed outcomes of the rounds that are being decided: read the
        outcomes of earlier rounds only.
        """
        return self._history.outcomes

    def drawn_where(self, unseen: Tensor, share: Tensor) -> Tensor:
        """Replaces shares (B, N, K) where `unseen` by a rank drawn from U(0, 1) for each candidate.

        The paper leaves the rank of a candidate undefined if its group was not seen.
        """
        if not bool(unseen.any()):
            return share
        return torch.where(unseen, self.draws(Purpose.RANK), share)

    def draws(self, purpose: Purpose) -> Tensor:
        """A uniform draw of its own for each candidate, (B, N, K); 0 at empty places.

        Draws are indexed by the candidate's running number among the candidates of all rounds.
        """
        counts = self.sizes.sum(1)
        starts = self._history.candidates - counts  # the history counts the open block
        stream, drawn = self.problem.streams[purpose], torch.zeros_like(self.scores.value)
        drawn[self.present] = stream.runs(starts.tolist(), counts.tolist())
        return drawn


@base("rank")
class Rank(Part):
    """Gives every candidate an index; a subclass writes `_index`."""

    max_contexts: int | None = None
    """The number of last contexts of each group that `scored.past` holds; None for all contexts in
    the rank window. With a limit, the memory of a run does not grow with its rounds."""

    def index(self, scored: Scored) -> Approximate:
        """The index of every candidate of N rounds, with its slack.

        Returns:
            Finite values (B, N, K) float64, also at empty places.

        Raises:
            FairbanditError: the index or its slack has the wrong shape or is not finite.
        """
        index = self._index(scored)
        if isinstance(index, Tensor):
            index = Approximate(index)
        if not isinstance(index, Approximate):  # such as 2 * scored.scores, a longer tuple
            raise FairbanditError(
                f"{self} gave {typed(index)}; expected a tensor, or Approximate(value, slack)"
            )
        self._check("an index", index.value, scored)
        if isinstance(index.slack, Tensor):
            self._check("a slack", index.slack, scored)
        least = index.slack.amin() if isinstance(index.slack, Tensor) else index.slack
        if not least >= 0:
            raise FairbanditError(f"{self} gave a slack below 0")
        return index

    def bounds(self, scored: Scored, index: Approximate) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index under the true rewards, (B, N, K) float64 each.

        Raises:
            NoBounds: the rank lacks bounds, or the reward model lacks bounds that the rank reads.
            FairbanditError: an upper bound is below its lower bound.
        """
        low, high = self._bounds(scored, index)
        self._check("bounds", low, scored, finite=False)
        self._check("bounds", high, scored, finite=False)
        if not bool((low <= high)[scored.present].all()):
            raise FairbanditError(f"{self} gave bounds that cross")
        return low, high

    def _check(self, name: str, values: Tensor, scored: Scored, finite: bool = True) -> None:
        if values.shape != scored.groups.shape or values.dtype != torch.float64:
            raise FairbanditError(
                f"{self} gave {name} of shape {tuple(values.shape)} and "
                f"{values.dtype}; expected {tuple(scored.groups.shape)} and torch.float64"
            )
        if finite and not all_finite(values):
            b, n, k = (~values.isfinite()).nonzero()[0].tolist()
            raise FairbanditError(
                f"{self} gave {name} of {values[b, n, k].item()} at replica "
                f"{scored.problem.streams.replicas[b]}, round {scored.first + n}, place "
                f"{k}; expected finite values"
            )

    @abstractmethod
    def _index(self, scored: Scored) -> Tensor | Approximate:
        """The index, (B, N, K); a plain tensor has a slack of 0."""

    def _bounds(self, scored: Scored, index: Approximate) -> tuple[Tensor, Tensor]:
        """Bounds of the index, (B, N, K) each; see `bounds`."""
        raise NoBounds(
            f"{self} has no bounds on its index; only ranks that implement `_bounds`, such as "
            "`identity` and `interval_cdf`, have bounds"
        )
