"""What ranks and selectors see of the rounds that they are asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from fairbandit.counting import PastScores
from fairbandit.counting.contexts import Ints
from fairbandit.errors import FairbanditError
from fairbandit.locks import cached_property
from fairbandit.models import RewardModel
from fairbandit.part import Problem
from fairbandit.past import Outcomes, Past
from fairbandit.streams import Purpose


class Ranking(Protocol):
    """What selectors see of the rank; see `Rank`."""

    def index(self, candidates: Candidates) -> Tensor:
        """The index of every candidate, (B, N, K)."""

    def tie_ceiling(self, candidates: Candidates, index: Tensor) -> Tensor:
        """The greatest number that each index may be, were it not rounded, (B, N, K)."""

    def bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index, (B, N, K) each."""


@dataclass(eq=False)
class Candidates:
    """N rounds of scored candidates, all decided at once, with the past they may read.

    Attributes:
        problem: what is played.
        contexts: (B, N, K, d).
        groups: (B, N, K) int64, −1 an empty place.
    """

    problem: Problem
    contexts: Tensor
    groups: Tensor
    _model: RewardModel  # one for each round
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
        """How far rounding has moved each score at most, (B, N, K); two tie within their sum."""
        return _alike(self._errors, self._scored[2])

    @cached_property
    def top(self) -> Tensor:
        """The largest past score that ties with each candidate's, (B, N, K).

        A past score is taken to be as far off as the candidate's own.
        """
        return self.scores + 2 * self.errors

    def bounds(self, of: Literal["score", "index"] = "score") -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds of the true rewards, or of the index, (B, N, K) each.

        They are −∞ and ∞ while the policy has learned from no reward.

        Args:
            of: "score", or "index" for bounds of the index that the true rewards give.

        Raises:
            NoBounds: the reward model has no confidence bounds, or the rank none on its index.
            FairbanditError: no such `of`.
        """
        if of == "index":
            low, high = self._rank.bounds(self)
        elif of == "score":
            ends, twins = self._model.bounds(self.contexts, self.groups), self._scored[2]
            low, high = (_alike(end, twins) for end in ends)
        else:
            raise FairbanditError(f"of: expected score or index; got {of!r}")
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
        """The rank's index, (B, N, K); 0 in rounds whose model has learned from no reward."""
        return self._if_informed(self._rank.index(self), 0.0)

    @cached_property
    def tie_ceiling(self) -> Tensor:
        """The greatest number that each index may be, were it not rounded, (B, N, K)."""
        ceiling = self._rank.tie_ceiling(self, self.index)
        return ceiling if ceiling is self.index else self._if_informed(ceiling, 0.0)

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
        the largest `_last_pick_read(t)` of the policy's parts; in the first guess of a block, those
        that are not played yet are missing.

        Raises:
            FairbanditError: no part of the policy declares that it reads picks.
        """
        if self._past.picks is None:
            raise FairbanditError(
                "this part reads past picks: let its `_last_pick_read(t)` return the last round "
                "whose pick it reads, such as t - 1"
            )
        read, played = map(self._last_pick, self.rounds.tolist()), self._past.picks.stop - 1
        last = torch.tensor([min(t, played) for t in read], device=self.groups.device)
        return self._past.pick_counts(last)

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
        if not bool(unseen.any()):
            return share
        return torch.where(unseen, self._draws(Purpose.RANK), share)

    def _draws(self, purpose: Purpose) -> Tensor:
        """A uniform draw of its own for each candidate, (B, N, K); 0 at empty places.

        It is the one that belongs to its number among the candidates of all rounds.
        """
        counts = self.present.sum((1, 2)).numpy(force=True)
        # the past already counts the candidates of these rounds, unless it lacks their pools
        starts = self._past.candidates - (counts if self._past.rounds >= self._first else 0)
        stream, drawn = self.problem.streams[purpose], torch.zeros_like(self.scores)
        drawn[self.present] = stream.runs(starts.tolist(), counts.tolist())
        return drawn

    @property
    def _apart(self) -> bool:
        """Whether the index is the score, and rounding can have parted no two of a pool."""
        return self.index is self.scores and not self._scored[1]

    def _if_informed(self, values: Tensor, otherwise: float) -> Tensor:
        """Values (B, N, K), and another one in rounds whose model has learned from no reward."""
        if self._informed is None:
            return values
        return values.where(self._informed[:, None], otherwise)

    @cached_property
    def _raw(self) -> Tensor:
        """Scores as the model gives them, (B, N, K); those of equal candidates may differ."""
        return self._model.score(self.contexts, self.groups)

    @cached_property
    def _errors(self) -> Tensor:
        return self._model.error(self.contexts, self.groups, self._raw)

    @cached_property
    def _scored(self) -> tuple[Tensor, bool, Tensor | None]:
        """Scores, the same for equal candidates; whether others are near; and who is equal."""
        scores, limit = self._raw, self._errors.amax(2, keepdim=True)
        ordered, order = scores.sort(2)
        gap = ordered.diff(dim=2)
        near = gap <= 2 * limit
        if not (bool(near.any()) and bool((near & (gap != 0)).any())):  # exact ties need no care
            return scores, False, None
        twins = _twins(self.contexts, self.groups, order, near)
        return _alike(scores, twins), True, twins


def _alike(values: Tensor, twins: Tensor | None) -> Tensor:
    """Values (B, N, K), of which equal candidates of a pool get that of the first of them."""
    return values if twins is None else values.gather(2, twins)


def _twins(contexts: Tensor, groups: Tensor, order: Tensor, tied: Tensor) -> Tensor:
    """The first place of each pool that holds an equal candidate, (B, N, K).

    Two kernels may score equal contexts a few units in the last place apart. `order` holds the
    places in the order of their scores, and `tied`, (B, N, K − 1), says which are near the next.
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
