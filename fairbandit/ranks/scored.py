"""The scored candidates, which ranks see."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fairbandit.counting import PastScores
from fairbandit.errors import FairbanditError
from fairbandit.estimators import Models
from fairbandit.history import History, Outcomes
from fairbandit.splits import Plan
from fairbandit.streams import Purpose


class Scored:
    """The scored candidates of N consecutive rounds, and the past that ranks may read.

    Args:
        history: the history, whose open block holds the pools of the rounds.
        plan: the past rounds that each round reads.
        models: the reward models of the rounds.

    Attributes:
        problem: the problem that is played.
        first: the first of the rounds, by which draws are addressed.
        contexts, groups: the pools, (B, N, K, d) and (B, N, K) int64, −1 for an empty place.
        present: whether each place holds a candidate, (B, N, K) bool.
        scores: each candidate's score under its own round's model, (B, N, K).
    """

    def __init__(self, history: History, plan: Plan, models: Models) -> None:
        self.problem, self.plan, self.models = history.problem, plan, models
        self.first, contexts, groups = history.block
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

        They are −∞ and ∞ while the reward model has not learned from a reward.

        Raises:
            NoBounds: the reward model has no confidence bounds.
        """
        low, high = self._model.bounds(self.contexts, self.groups)
        return self.models.if_informed(low, -torch.inf), self.models.if_informed(high, torch.inf)

    @cached_property
    def past(self) -> PastScores:
        """The past contexts of each candidate's group in the rank window of its round.

        Raises:
            FairbanditError: the rank does not declare that it needs contexts.
        """
        contexts = self._history.contexts
        if contexts is None:
            raise FairbanditError('this rank reads past contexts: declare needs = {"contexts"}')
        rounds, _, start, stop, _ = self.plan
        window = np.stack([start, stop])
        models = self.models.distinct, self.models.of_round
        return PastScores(contexts, rounds, window, self.groups, *models, self.scores)

    @property
    def outcomes(self) -> Outcomes:
        """The known picks with their rewards, if a part of the policy needs rewards.

        In a block they include guessed outcomes of the rounds that are being decided: read the
        outcomes of earlier rounds only.
        """
        return self._history.outcomes

    def drawn_where(self, unseen: Tensor, share: Tensor) -> Tensor:
        """Replaces missing shares by ranks drawn from U(0, 1), a draw for each candidate.

        The paper leaves the rank of a candidate undefined if its group was not seen.

        Args:
            unseen: the candidates whose share is missing, (B, N, K) bool.
            share: the shares of the other candidates, (B, N, K).

        Returns:
            (B, N, K).
        """
        if not bool(unseen.any()):
            return share
        return torch.where(unseen, self.draws(Purpose.RANK), share)

    def draws(self, purpose: Purpose) -> Tensor:
        """A uniform draw of its own for each candidate, (B, N, K); 0 at empty places.

        Draws are indexed by the candidate's running number among the candidates of all rounds.
        """
        counts = self.present.sum((1, 2)).numpy(force=True)
        starts = self._history.candidates - counts  # the history counts the open block
        stream, drawn = self.problem.streams[purpose], torch.zeros_like(self.scores.value)
        drawn[self.present] = stream.runs(starts.tolist(), counts.tolist())
        return drawn
