"""What ranks and selectors see of the rounds that they are asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.history import History, Outcomes
from fairbandit.parts.model import RewardModel
from fairbandit.parts.past import Past
from fairbandit.parts.splits import Division
from fairbandit.streams import Stream


@dataclass
class Candidates:
    """N rounds of scored candidates, all decided at once, with the past they may read.

    Attributes:
        first: the first of the N rounds, which are consecutive.
        division: how each round divides the past, fields (N,).
        contexts: (B, N, K, d).
        groups: (B, N, K) int64, −1 an empty place.
        model: the U reward models of these rounds.
        of_round: which model each round uses, (N,) int64 into the U, nondecreasing.
        history: past picks, past contexts and past rewards, as far as parts declare to need them.
        stream: the rank's own random numbers.
        index: the rank's index, (B, N, K), for selectors; not set while the rank is asked
            for it.
        upper_index: up to which index each candidate ties, (B, N, K), for selectors.
    """

    first: int
    division: Division
    contexts: Tensor
    groups: Tensor
    model: RewardModel
    of_round: Tensor
    history: History
    stream: Stream
    index: Tensor = field(init=False)
    upper_index: Tensor = field(init=False)
    _index_bounds: Callable[[Candidates], tuple[Tensor, Tensor]] = field(init=False)
    _found_bounds: tuple[Tensor, Tensor] | None = field(init=False)
    _last_picks: Tensor | None = field(init=False, default=None)

    def set_index(
        self,
        index: Tensor,
        upper: Tensor,
        bounds: Callable[[Candidates], tuple[Tensor, Tensor]],
    ) -> None:
        """Shows the rank's answers to the selector.

        Args:
            index: (B, N, K).
            upper: the upper index, (B, N, K).
            bounds: gives the bounds on the index.
        """
        self.index, self.upper_index = index, upper
        self._index_bounds, self._found_bounds = bounds, None

    def read_picks(self, last: Tensor) -> None:
        """Says which picks count for each round: those up to rounds `last`, (N,)."""
        self._last_picks = last

    @cached_property
    def rounds(self) -> Tensor:
        """The rounds t, (N,) int64."""
        first, n = self.first, self.groups.shape[1]
        return torch.arange(first, first + n, device=self.groups.device)

    @cached_property
    def present(self) -> Tensor:
        """Which places hold a candidate, (B, N, K) bool."""
        return self.groups >= 0

    @cached_property
    def own_model(self) -> RewardModel:
        """One model a round: U = N."""
        alike = len(self.model) == self.groups.shape[1]
        return self.model if alike else self.model.take(self.of_round)

    @cached_property
    def scores(self) -> Tensor:
        """Each candidate's score under its own round's model, (B, N, K)."""
        return self.own_model.score(self.contexts, self.groups)

    @cached_property
    def upper_scores(self) -> Tensor:
        """The largest values that tie with the scores, (B, N, K); see `maths.ties`."""
        return self.own_model.upper_score(self.contexts, self.groups, self.scores)

    @cached_property
    def tie_tolerance(self) -> Tensor:
        """The tie tolerance of each pool, (B, N, 1): the largest of its candidates'."""
        return (self.upper_scores - self.scores).masked_fill(~self.present, 0).amax(2, keepdim=True)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds of the candidates' true rewards, (B, N, K) each.

        They are −∞ and ∞ while the policy has learned from no reward.

        Raises:
            FairbanditError: the reward model has no confidence bounds.
        """
        return self.own_model.bounds(self.contexts, self.groups)

    def index_bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index under the true rewards, (B, N, K) each.

        They are −∞ and ∞ while the policy has learned from no reward.

        Raises:
            FairbanditError: the rank has no bounds on its index.
        """
        if self._found_bounds is None:  # they may cost a scan of all past contexts
            self._found_bounds = self._index_bounds(self)
        return self._found_bounds

    @property
    def picks(self) -> Tensor:
        """How often each group was picked, (B, N, G) int64.

        The picks of rounds 1 … `last_pick_read(t)` count at round t, whether or not their rewards
        are known.

        Raises:
            FairbanditError: no part of the policy declares that it reads picks.
        """
        if self._last_picks is None:
            raise FairbanditError(
                "this part reads past picks: let its `last_pick_read(t)` return the last round "
                "whose pick it reads, such as t - 1"
            )
        return self.history.picks(self._last_picks)

    @cached_property
    def past(self) -> Past:
        """The contexts of each candidate's group that its round's rank window holds.

        Raises:
            FairbanditError: the rank does not declare that it needs contexts.
        """
        if "contexts" not in self.history.needs:
            raise FairbanditError('this rank reads past contexts: declare needs = {"contexts"}')
        window = self.division.start, self.division.stop
        # a closure over `self` would be a cycle of references, which is freed late
        model, contexts, groups, scores = self.own_model, self.contexts, self.groups, self.scores
        own = scores, lambda: model.upper_score(contexts, groups, scores)
        return Past(
            self.history.contexts, self.first, window, groups, self.model, self.of_round, own
        )

    def outcomes(self, start: int, stop: int) -> Outcomes:
        """The picks of rounds start+1 … stop with their rewards, (B, n, …).

        Raises:
            FairbanditError: rounds that are not kept.
        """
        return self.history.outcomes(start, stop)

    def rewards(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """The same rounds' groups and rewards, (B, n) each: much less to read than all outcomes."""
        return self.history.rewards(start, stop)

    def uniform(self) -> Tensor:
        """One uniform draw in [0, 1) a place, (B, N, K)."""
        _, n, k = self.groups.shape
        return self.stream.uniform(self.first, n, k, self.history.shift(k))

    def drawn_where(self, unseen: Tensor, share: Tensor) -> Tensor:
        """Shares, with ranks drawn from U(0, 1) for the candidates that have none.

        The paper leaves the rank of a candidate undefined whose group was not seen. Each such
        candidate gets a draw of its own.

        Args:
            unseen: which candidates have no share, (B, N, K) bool.
            share: the shares of the others, (B, N, K).

        Returns:
            (B, N, K).
        """
        return torch.where(unseen, self.uniform(), share) if bool(unseen.any()) else share
