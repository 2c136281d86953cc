"""What ranks and selectors see of the rounds that they are asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from fairbandit.counting import PastScores
from fairbandit.counting.contexts import Ints
from fairbandit.errors import FairbanditError
from fairbandit.locks import without_locks
from fairbandit.models import RewardModel
from fairbandit.part import Problem
from fairbandit.past import Outcomes, Past
from fairbandit.streams import Purpose


class Ranking(Protocol):
    """What selectors see of the rank; see `Rank`."""

    def index(self, candidates: Candidates) -> Tensor:
        """The index of every candidate, (B, N, K)."""

    def tie_ceiling(self, candidates: Candidates, index: Tensor) -> Tensor:
        """The largest value with which each index ties, (B, N, K)."""

    def bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index, (B, N, K) each."""


@without_locks
@dataclass(eq=False)
class Candidates:
    """N rounds of scored candidates, all decided at once, with the past they may read.

    Attributes:
        problem: what is played.
        contexts: (B, N, K, d).
        groups: (B, N, K) int64, −1 an empty place.
        model: one reward model for each round.
    """

    problem: Problem
    contexts: Tensor
    groups: Tensor
    model: RewardModel
    _rank: Ranking
    _informed: Tensor | None  # which rounds' models have learned from a reward; None if all have
    _shared: tuple[RewardModel, Tensor]  # U models, and which of them each round uses
    _first: int
    _window: Ints  # see `rank_window`, (2, N)
    _past: Past
    _last_pick: Callable[[int], int]  # the last round whose pick a round reads

    @cached_property
    def rounds(self) -> Tensor:
        """The rounds t, which are consecutive, (N,) int64."""
        first, n = self._first, self.groups.shape[1]
        return torch.arange(first, first + n, device=self.groups.device)

    @cached_property
    def rank_window(self) -> tuple[Tensor, Tensor]:
        """Start and stop of each round's rank window, rounds start + 1 … stop, (N,) int64 both."""
        start, stop = (self.rounds.new_tensor(end) for end in self._window)
        return start, stop

    @cached_property
    def present(self) -> Tensor:
        """Which places hold a candidate, (B, N, K) bool."""
        return self.groups >= 0

    @property
    def scores(self) -> Tensor:
        """Each candidate's score under its own round's model, (B, N, K)."""
        return self._scored[0]

    @cached_property
    def errors(self) -> Tensor:
        """How far rounding may have moved each score, (B, N, K): two tie within their sum."""
        return _alike(self._errors, self._scored[2])

    @cached_property
    def top(self) -> Tensor:
        """The largest past score that ties with each candidate's, (B, N, K)."""
        contexts, model, groups = self._past.contexts, self.model, self.groups
        if contexts is None or not model.is_off:
            return self.scores + 2 * self.errors
        largest = contexts.largest_before(self._first, groups.shape[1])[:, :, None]
        largest = largest.expand(*groups.shape, -1)
        past_errors = model.error(largest, groups, model.score(largest, groups))
        return self.scores + self.errors + past_errors

    @cached_property
    def sizes(self) -> Tensor:
        """How many candidates each pool has, (B, N, 1) int64."""
        return self.present.sum(2, keepdim=True)

    @cached_property
    def order(self) -> Tensor | None:
        """The places of each pool by index, the best first, (B, N, K).

        It is known where the index is the score, no two of a pool tie, and no place is empty.
        """
        ascending = self._scored[3] if self.index is self.scores else None
        return None if ascending is None or not bool(self.present.all()) else ascending.flip(2)

    @property
    def apart(self) -> bool:
        """Whether the index is the score, and rounding can have parted no two of a pool."""
        return self.index is self.scores and not self._scored[1]

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds of the candidates' true rewards, (B, N, K) each.

        They are −∞ and ∞ while the policy has learned from no reward.

        Raises:
            NoBounds: the reward model has no confidence bounds.
        """
        ends, twins = self.model.bounds(self.contexts, self.groups), self._scored[2]
        low, high = (_alike(end, twins) for end in ends)
        return self._if_informed(low, -torch.inf), self._if_informed(high, torch.inf)

    @cached_property
    def past(self) -> PastScores:
        """The contexts of each candidate's group that its round's rank window holds.

        Raises:
            FairbanditError: the rank does not declare that it needs contexts.
        """
        contexts = self._past.contexts
        if contexts is None:
            raise FairbanditError('this rank reads past contexts: declare needs = {"contexts"}')
        own = self.scores, self.top
        return PastScores(contexts, self._first, self._window, self.groups, *self._shared, own)

    @cached_property
    def index(self) -> Tensor:
        """The rank's index, (B, N, K), for selectors; 0 while no reward is known to learn from."""
        return self._if_informed(self._rank.index(self), 0.0)

    @cached_property
    def tie_ceiling(self) -> Tensor:
        """The largest value with which each index ties, (B, N, K), for selectors."""
        ceiling = self._rank.tie_ceiling(self, self.index)
        return ceiling if ceiling is self.index else self._if_informed(ceiling, 0.0)

    @cached_property
    def index_bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index under the true rewards, (B, N, K) each.

        They are −∞ and ∞ while the policy has learned from no reward.

        Raises:
            NoBounds: the rank has no bounds on its index, or the reward model none.
        """
        low, high = self._rank.bounds(self)
        return self._if_informed(low, -torch.inf), self._if_informed(high, torch.inf)

    @property
    def outcomes(self) -> Outcomes:
        """The known picks with their rewards, as far as parts declare to need them.

        In a block they include supposed ones of the rounds asked about: read earlier rounds alone.
        """
        return self._past.outcomes

    @property
    def pick_counts(self) -> Tensor:
        """How often each group was picked, (B, N, G) int64.

        The picks of rounds 1 … l count at round t, whether or not their rewards are known, l being
        the largest `_last_pick_read(t)` of the policy's parts.

        Raises:
            FairbanditError: no part of the policy declares that it reads picks.
        """
        if self._past.picks is None:
            raise FairbanditError(
                "this part reads past picks: let its `_last_pick_read(t)` return the last round "
                "whose pick it reads, such as t - 1"
            )
        return self._past.pick_counts(self._picks_read.clamp(max=self._past.picks.stop - 1))

    @property
    def rounds_guessed(self) -> Tensor:
        """How many of the rounds that `pick_counts` should count have no picks yet, (N,) int64.

        There are some in the first guess of a block alone.
        """
        played = 0 if self._past.picks is None else self._past.picks.stop - 1
        return (self._picks_read - played).clamp(min=0)

    @cached_property
    def _picks_read(self) -> Tensor:
        """The last round whose pick each round reads, (N,)."""
        read = [self._last_pick(t) for t in self.rounds.tolist()]
        return torch.tensor(read, device=self.groups.device)

    def drawn_where(self, unseen: Tensor, share: Tensor) -> Tensor:
        """Shares, with ranks drawn from U(0, 1) for the candidates that have none.

        The paper leaves the rank of a candidate undefined whose group was not seen. Each such
        candidate gets a draw of its own; see `draws`.

        Args:
            unseen: which candidates have no share, (B, N, K) bool.
            share: the shares of the others, (B, N, K).

        Returns:
            (B, N, K).
        """
        if not bool(unseen.any()):
            return share
        return torch.where(unseen, self.draws(Purpose.RANK), share)

    def draws(self, purpose: Purpose) -> Tensor:
        """A uniform draw of its own for each candidate, (B, N, K); 0 at empty places.

        It is the one that belongs to its number among the candidates of all rounds.
        """
        counts = self.present.sum((1, 2)).numpy(force=True)
        # the past already counts the candidates of these rounds, unless it lacks their pools
        starts = self._past.candidates - (counts if self._past.rounds >= self._first else 0)
        stream, drawn = self.problem.streams[purpose], torch.zeros_like(self.scores)
        drawn[self.present] = stream.runs(starts.tolist(), counts.tolist())
        return drawn

    def _if_informed(self, values: Tensor, otherwise: float) -> Tensor:
        """Values (B, N, K), and another one in rounds whose model has learned from no reward."""
        if self._informed is None:
            return values
        return values.where(self._informed[:, None], otherwise)

    @cached_property
    def _raw(self) -> Tensor:
        """Scores as the model gives them, (B, N, K); those of equal candidates may differ."""
        return self.model.score(self.contexts, self.groups)

    @cached_property
    def _errors(self) -> Tensor:
        """The errors of these."""
        return self.model.error(self.contexts, self.groups, self._raw)

    @cached_property
    def _scored(self) -> tuple[Tensor, bool, Tensor | None, Tensor | None]:
        """Scores, the same for equal candidates; whether others are near; who is equal; the order.

        The places are in ascending order of their scores, and None where any two may tie.
        """
        scores, model = self._raw, self.model
        if model.is_off:  # the limit is then much cheaper
            limit = model.error_limit(self.contexts, self.groups, scores)
        else:
            limit = float(self._errors.max())
        ordered, order = scores.sort(2)
        gap = ordered[..., 1:] - ordered[..., :-1]
        near = gap <= 2 * limit
        if not bool(near.any()):
            return scores, False, None, order
        if not bool((near & (gap != 0)).any()):  # exact ties need no care
            return scores, False, None, None
        twins = _twins(self.contexts, self.groups, order, near)
        return _alike(scores, twins), True, twins, None


def _alike(values: Tensor, twins: Tensor | None) -> Tensor:
    """Values (B, N, K), of which equal candidates of a pool get that of the first of them."""
    return values if twins is None else values.gather(2, twins)


def _twins(contexts: Tensor, groups: Tensor, order: Tensor, tied: Tensor) -> Tensor:
    """The first place of each pool that holds an equal candidate, (B, N, K).

    Two kernels may score equal contexts a few units in the last place apart.

    Args:
        contexts: (B, N, K, d).
        groups: (B, N, K).
        order: the places of each pool in the order of their scores, (B, N, K).
        tied: which of them have nearly the score of the next one, (B, N, K − 1).
    """
    k = groups.shape[2]
    near = torch.zeros_like(groups, dtype=torch.bool)
    near[..., 1:] |= tied
    near[..., :-1] |= tied
    at = torch.zeros_like(near).scatter_(2, order, near) & (groups >= 0)
    pool, place = at.flatten(0, 1).nonzero().unbind(1)
    keys = [pool[:, None].to(contexts.dtype), groups[at][:, None].to(contexts.dtype), contexts[at]]
    _, number = torch.unique(torch.cat(keys, 1), dim=0, return_inverse=True)
    first = place.new_full((len(number),), k).scatter_reduce_(0, number, place, "amin")[number]
    twins = torch.arange(k, device=groups.device).expand(groups.shape).clone()
    twins[at] = first
    return twins
