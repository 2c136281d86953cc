"""What a rank sees of the rounds it is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.history import History
from fairbandit.parts.model import RewardModel
from fairbandit.parts.past import Past
from fairbandit.parts.splits import Spans
from fairbandit.streams import Stream


@dataclass(frozen=True)
class Candidates:
    """N rounds of scored candidates, all decided at once, with the past they may read.

    Attributes:
        first: the first of the N rounds, which are consecutive.
        spans: what each round reads of the past, fields (N,).
        contexts: (B, N, K, d).
        groups: (B, N, K) int64, −1 an empty place.
        model: the U reward models of these rounds.
        of_round: which model each round uses, (N,) int64 into the U, nondecreasing.
        history: what the rank declared to need.
        stream: the rank's own random numbers.
    """

    first: int
    spans: Spans
    contexts: Tensor
    groups: Tensor
    model: RewardModel
    of_round: Tensor
    history: History
    stream: Stream

    @cached_property
    def rounds(self) -> Tensor:
        """The rounds t, (N,) int64."""
        return torch.arange(
            self.first, self.first + self.groups.shape[1], device=self.groups.device
        )

    @cached_property
    def own_model(self) -> RewardModel:
        """One model a round: U = N."""
        if len(self.model) == self.groups.shape[1]:
            return self.model
        return self.model.take(self.of_round)

    @cached_property
    def scores(self) -> Tensor:
        """Each candidate's score under its own round's model, (B, N, K)."""
        return self.own_model.score(self.contexts)

    @cached_property
    def upper_scores(self) -> Tensor:
        """The largest values that tie with the scores, (B, N, K); see `maths.ties`."""
        return self.own_model.ceiling(self.contexts, self.scores)

    @cached_property
    def rounding(self) -> Tensor:
        """The most by which a score of the pool may be off, (B, N, 1): no difference is smaller."""
        return (
            (self.upper_scores - self.scores).masked_fill(self.groups < 0, 0).amax(2, keepdim=True)
        )

    @cached_property
    def past(self) -> Past:
        """The contexts of each candidate's group that its round's window holds.

        Raises:
            FairbanditError: the rank does not declare that it needs contexts.
        """
        if "contexts" not in self.history.needs:
            raise FairbanditError('this rank reads past contexts: declare needs = {"contexts"}')
        window = self.spans.after, self.spans.until
        own = self.scores, lambda: self.upper_scores
        return Past(
            self.history.contexts, self.first, window, self.groups, self.model, self.of_round, own
        )

    def uniform(self) -> Tensor:
        """One uniform draw in [0, 1) a place, (B, N, K)."""
        _, n, k = self.groups.shape
        return self.stream.uniform(self.first, n, k, self.history.shift(k))

    def drawn_where(self, unseen: Tensor, share: Tensor) -> Tensor:
        """Shares, but a rank drawn from U(0, 1), each candidate its own, where there is none.

        The paper leaves the rank of a candidate undefined whose group was not seen.

        Args:
            unseen: which candidates have no share, (B, N, K) bool.
            share: the shares of the others, (B, N, K).

        Returns:
            (B, N, K).
        """
        return torch.where(unseen, self.uniform(), share) if bool(unseen.any()) else share
