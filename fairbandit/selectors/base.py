"""Selectors pick from the ranked candidates of each pool, with known probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import SUMS, Approximate
from fairbandit.history.contexts import Ints
from fairbandit.ranks import Scored
from fairbandit.registry import Part, base
from fairbandit.selectors.inclusion import capped_shares, filled, standing, systematic
from fairbandit.streams import Purpose


class Ranked:
    """Scored candidates with their index, as a selector sees them.

    In rounds whose reward model has seen no reward, all candidates tie: their index is 0
    with infinite slack, and its bounds are −∞ and ∞. The index of the rank is not used.

    Attributes:
        scored: the candidates, with their scores and their past.
        index: the rank's index, an `Approximate` of (B, N, K).
        problem, groups, present: attributes of `scored`.
    """

    def __init__(
        self,
        scored: Scored,
        index: Approximate,
        bounds: tuple[Tensor, Tensor] | None = None,
        pick_counts: Tensor | None = None,
    ) -> None:
        if scored.models.informed is not None:
            if_informed, (value, slack) = scored.models.if_informed, index
            slack = if_informed(slack + torch.zeros_like(value), torch.inf)
            index = Approximate(if_informed(value, 0.0), slack)
            if bounds is not None:
                low, high = bounds
                bounds = if_informed(low, -torch.inf), if_informed(high, torch.inf)
        self.scored, self.index = scored, index
        self._bounds, self._pick_counts = bounds, pick_counts
        self.problem, self.groups, self.present = scored.problem, scored.groups, scored.present

    @property
    def bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index under the true rewards, (B, N, K) each.

        The selector must declare the need `bounds`.
        """
        if self._bounds is None:
            raise FairbanditError('this selector reads bounds: declare needs = {"bounds"}')
        return self._bounds

    @property
    def pick_counts(self) -> Tensor:
        """The number of earlier picks of each group, (B, N, G) int64.

        Round t counts the picks of rounds 1 … t − 1, whether or not their rewards are known. In the
        first guess of a block, picks of undecided rounds are missing. A part of the policy must
        declare the need `picks`.
        """
        if self._pick_counts is None:
            raise FairbanditError('this part reads past picks: declare needs = {"picks"}')
        return self._pick_counts


class Selection(NamedTuple):
    """The picks of N rounds, m from each pool.

    Attributes:
        actions: the places picked, (B, N, m) int64, in order of preference, ties by place; −1 in
            slots that a small pool leaves empty.
        propensities: the inclusion probability of each pick, (B, N, m); NaN in empty slots.
        inclusion: the probability that each place is among the picks, (B, N, K).
    """

    actions: Tensor
    propensities: Tensor
    inclusion: Tensor

    @classmethod
    def of(cls, actions: Tensor) -> Selection:
        """Picks (B, N, m) whose probabilities are not known, such as logged picks."""
        unknown = torch.full(actions.shape, torch.nan, device=actions.device)
        return cls(actions, unknown, unknown[..., :0])

    @property
    def places(self) -> Tensor:
        """The places picked in ascending order, (B, N, m), empty slots first."""
        return self.actions.sort(2).values if self.actions.shape[2] > 1 else self.actions

    def squeezed(self) -> Selection:
        """The selection as metrics see it: for one pick, actions and propensities are (B, N)."""
        if self.actions.shape[2] > 1:
            return self
        return Selection(self.actions.squeeze(2), self.propensities.squeeze(2), self.inclusion)


@base("selector")
class Selector(Part):
    """Picks places with given inclusion probabilities; a subclass writes `_inclusion`."""

    sequential: ClassVar[bool] = False
    """Whether candidates are decided one at a time, before later candidates are seen. If so, the
    selector derives from `Rolling`, whose `step` an agent calls for each candidate."""

    def select(self, ranked: Ranked, picks: int = 1) -> Selection:
        """Picks m places from each pool.

        Places are drawn by systematic sampling of the inclusion probabilities π, with the one
        uniform number u of the round. One pick is the first place whose cumulative probability
        exceeds u. For several picks, the places are put in a random order first; see `systematic`.

        Args:
            ranked: N rounds of candidates with their index.
            picks: m; a pool with fewer candidates is taken whole.

        Returns:
            The picks and their probabilities, conditional on the past and on the round's draws of
            the estimator and the rank.

        Raises:
            FairbanditError: a pool without candidates, or probabilities that break the contract.
        """
        inclusion, sizes = self._checked(self._inclusion(ranked, picks), ranked, picks)
        if int(inclusion.count_nonzero()) > sizes.sum():
            n, streams = sizes.shape[1], ranked.problem.streams
            start = streams[Purpose.SELECTOR].uniform(ranked.scored.first, n, 1)[..., 0]
            keys = ranked.scored.draws(Purpose.ORDER) if picks > 1 else None
            places = systematic(inclusion, torch.from_numpy(sizes).to(start.device), start, keys)
        elif picks > 1:  # all picks are certain
            slots = torch.arange(1, picks + 1, device=inclusion.device).expand(*sizes.shape, -1)
            places = torch.searchsorted((inclusion > 0).cumsum(2), slots.contiguous())
        else:
            places = inclusion.argmax(2, keepdim=True)
        if picks == 1:
            return Selection(places, inclusion.gather(2, places), inclusion)
        empty = places == inclusion.shape[2]
        places = _preferred(ranked.index, places.masked_fill(empty, 0), empty)
        propensities = inclusion.gather(2, places).masked_fill(empty, torch.nan)
        return Selection(places.masked_fill(empty, -1), propensities, inclusion)

    @abstractmethod
    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        """The probability that each place is among the picks, (B, N, K), with the sum `picks`.

        It is 0 at empty places. The result for pools of at most m candidates is ignored, since they
        are taken whole.
        """

    def _checked(self, inclusion: Tensor, ranked: Ranked, picks: int) -> tuple[Tensor, Ints]:
        """The probabilities, 1 for all of at most m candidates, and the numbers of picks (B, N)."""
        value, present, available = ranked.index.value, ranked.present, ranked.scored.sizes
        if inclusion.shape != value.shape or inclusion.dtype != value.dtype:
            raise FairbanditError(
                f"{self} gave inclusion probabilities of shape {tuple(inclusion.shape)} and "
                f"{inclusion.dtype}; expected {tuple(value.shape)} and {value.dtype}"
            )
        capacity, sizes, least = present.double(), np.minimum(available, picks), available.min()
        if least <= picks:
            whole = torch.from_numpy(available <= picks).to(present.device)
            inclusion = capacity.where(whole[..., None], inclusion)
        clipped = inclusion.relu().minimum(capacity)
        sound, number = least > 0, torch.from_numpy(sizes).double().to(present.device)
        for found, expected in ((inclusion, clipped), (clipped.sum(2), number)):
            # exact equality is found faster, and comparisons with NaN are false
            near = torch.equal(found, expected) or torch.dist(found, expected, torch.inf) <= SUMS
            sound = sound and near
        if not sound:
            within = ((clipped - inclusion).abs() <= SUMS).all(2)
            within &= ((clipped.sum(2) - number).abs() <= SUMS) & (number > 0)
            b, n = (~within).nonzero()[0].tolist()
            raise FairbanditError(
                f"{self} gave inclusion probabilities {inclusion[b, n].tolist()} at replica "
                f"{ranked.problem.streams.replicas[b]}, round {ranked.scored.first + n}; "
                f"expected numbers from 0 to 1 with the sum {int(sizes[b, n])}, and 0 at empty "
                f"places; they sum to {float(inclusion[b, n].sum()):.9g}, and the pool has "
                f"candidates at {present[b, n].nonzero()[:, 0].tolist()}"
            )
        return clipped, sizes


def best(
    index: Approximate,
    capacity: Tensor,
    amount: Tensor | int,
    kinds: Tensor | None = None,
) -> Tensor:
    """Gives an amount to the best candidates first; candidates that tie share it equally.

    With the capacity 1 for each candidate and the amount m, the result is the probability that each
    candidate is among the m best: 1 for certain members, equal shares for ties at the last places.

    Args:
        index: the index; candidates tie if their ranges [low, high] overlap.
        capacity: the most that each candidate receives, (B, N, K); or bool, true for places that
            hold a candidate, each with the capacity 1.
        amount: m, or (B, N, 1); if it exceeds the sum of the capacities, all are filled.
        kinds: the kind of each candidate, 0 … G − 1, (B, N, K) int64, such as its group. Each kind
            then has its own amount, (B, N, G).

    Returns:
        (B, N, K), from 0 to the capacity.
    """
    dtype, present = index.value.dtype, capacity
    if not isinstance(amount, int) or present.dtype != torch.bool:
        amount = index.value.new_full((1, 1, 1), amount) if isinstance(amount, int) else amount
        amount = amount.expand(*capacity.shape[:2], -1)
        kinds = None if kinds is None else kinds.clamp(min=0)
        return filled(index.low, index.high, capacity.to(dtype), amount, kinds)
    if amount >= capacity.shape[2]:
        return capacity.to(dtype)
    low, high = index.low.where(present, -torch.inf), index.high
    if amount == 1:
        tied = ((high >= low.amax(2, keepdim=True)) & present).to(dtype)
        return tied / tied.sum(2, keepdim=True)
    possible = (high >= low.topk(amount, 2).values[..., -1:]) & present
    number = possible.sum(2, keepdim=True)
    if int(number.amax()) <= amount:  # no candidates tie for the last places
        return possible.to(dtype)
    certain = low > high.where(present, -torch.inf).topk(amount + 1, 2).values[..., -1:]
    taken = certain.sum(2, keepdim=True, dtype=dtype)
    share = ((amount - taken) / (number - taken).clamp(min=1)).clamp(max=1)
    return share.where(possible & ~certain, certain.to(dtype))


def proportional(weights: Tensor, picks: int) -> Tensor:
    """Inclusion probabilities in proportion to weights: π = min(1, c·weight) with the sum m.

    Weights (B, N, K) are finite and at least 0, and 0 at empty places. The probabilities sum to the
    number of positive weights if that is smaller than m.

    >>> proportional(torch.tensor([[[4.0, 1.0, 1.0, 0.0]]]), 2)
    tensor([[[1.0000, 0.5000, 0.5000, 0.0000]]])
    """
    return softmax(weights.log(), picks)


def softmax(logarithms: Tensor, picks: int) -> Tensor:
    """Inclusion probabilities `proportional(exp(x))`, for x (B, N, K), −∞ at empty places.

    Exponentials may be beyond the range of floating-point numbers.

    >>> softmax(torch.tensor([[[3000.0, 2000.0, 1000.0, 0.0]]]), 2)
    tensor([[[1., 1., 0., 0.]]])
    """
    capacity = (logarithms > -torch.inf).to(logarithms.dtype)
    return capped_shares(logarithms, capacity, logarithms.new_full((1, 1, 1), picks))


def _preferred(index: Approximate, places: Tensor, empty: Tensor) -> Tensor:
    """Places that tie keep their order, and empty slots come last."""
    high = index.high.gather(2, places).masked_fill(empty, -torch.inf)
    ordered, order = high.sort(dim=2, descending=True, stable=True)
    low = index.low.gather(2, places).masked_fill(empty, -torch.inf)
    lower = low.gather(2, order)[..., :-1]
    if not bool(((lower > ordered[..., 1:]) | (lower == -torch.inf)).all()):
        better, _ = standing(low, high, (~empty).to(low.dtype), torch.zeros_like(places))
        order = better.masked_fill(empty, torch.inf).sort(dim=2, stable=True).indices
    return places.gather(2, order)
