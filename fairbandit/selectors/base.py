"""Selectors: pick one candidate of each pool, with known probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.errors import FairbanditError
from fairbandit.maths.inclusion import filled, standing, systematic
from fairbandit.part import Part
from fairbandit.registry import base
from fairbandit.streams import Purpose

ROUNDING = 1e-9
"""How far inclusion probabilities and their sums may be off."""


class Selection(NamedTuple):
    """The picks of N rounds: one of each pool, or m of each.

    Attributes:
        actions: the places picked, (B, N) int64; or, of several picks, (B, N, m) in order of
            preference, −1 in slots that a small pool leaves empty.
        propensities: the probability of each pick to be picked, as `actions`; NaN in empty slots.
        weights: what the probabilities are proportional to, (B, N, K); of several picks, the
            inclusion probabilities themselves, which sum to m.
    """

    actions: Tensor
    propensities: Tensor
    weights: Tensor

    @property
    def places(self) -> Tensor:
        """The places picked in ascending order, as `actions`."""
        return self.actions.sort(2).values if self.actions.ndim == 3 else self.actions

    @property
    def probabilities(self) -> Tensor:
        """The probability of each place to be picked, (B, N, K)."""
        if self.actions.ndim == 3:
            return self.weights
        weights = self.weights.to(self.propensities.dtype)
        return weights / weights.sum(2, keepdim=True)


@base("selector")
class Selector(Part):
    """Picks a place with a probability proportional to its weight; a subclass writes `_weights`.

    For shortlists of m picks it also writes `_inclusion`.
    """

    def select(self, candidates: Candidates, index: Tensor, picks: int = 1) -> Selection:
        """Picks one place of each pool, or several.

        With the round's one uniform number u and the places' weights w, one pick is the first place
        whose cumulative weight exceeds u·Σw. Several are drawn by systematic sampling of the
        inclusion probabilities, from u and with the places in a random order; see `systematic`.

        Args:
            candidates: N rounds of candidates, with their index and its tie ceiling.
            index: (B, N, K), to be maximised.
            picks: m; a pool of fewer candidates is taken whole.

        Returns:
            The picks, and how likely they were. The probabilities hold given the past, and given
            the round's draws of the estimator and the rank.

        Raises:
            FairbanditError: weights of the wrong shape, negative, not finite, positive at an empty
                place, or 0 at all places, as those of a pool without candidates must be; or
                inclusion probabilities that are none.
        """
        if picks > 1:
            return self._shortlist(candidates, index, picks)
        weights = self._weights(candidates, index)
        if weights.shape != index.shape:
            raise FairbanditError(
                f"{self} gave weights of shape {tuple(weights.shape)}; "
                f"expected (B, N, K) = {tuple(index.shape)}"
            )
        positive = weights if weights.dtype is torch.bool else weights > 0
        some, actions = positive.max(2)
        sound = bool(some.all()) and not bool((positive > candidates.present).any())
        if positive is not weights:
            sound = sound and bool((weights >= 0).all()) and bool(weights.sum(2).isfinite().all())
        if not sound:
            raise self._unsound(weights, candidates)
        if int(positive.count_nonzero()) == actions.numel():  # no pool leaves a choice
            return Selection(actions, torch.ones_like(actions, dtype=index.dtype), weights)
        weights = weights.to(index.dtype)
        cumulative = weights.cumsum(2)
        stream = candidates.problem.streams[Purpose.SELECTOR]
        draw = stream.uniform(int(candidates.rounds[0]), index.shape[1], 1)
        exceeds = cumulative > draw * cumulative[..., -1:]
        actions = exceeds.view(torch.uint8).argmax(2)
        propensities = weights.gather(2, actions[..., None]) / weights.sum(2, keepdim=True)
        return Selection(actions, propensities[..., 0], weights)

    def _checked_inclusion(self, candidates: Candidates, index: Tensor, picks: int) -> Tensor:
        """The checked result of `_inclusion`; all of a pool of at most m candidates get 1."""
        found, there = self._inclusion(candidates, index, picks), candidates.present
        if found.shape != index.shape or found.dtype != index.dtype:
            raise FairbanditError(
                f"{self} gave inclusion probabilities of shape "
                f"{tuple(found.shape)} and {found.dtype}; expected {tuple(index.shape)} and "
                f"{index.dtype}"
            )
        there, sizes = there.to(found.dtype), there.sum(2, keepdim=True)
        found = found.where(sizes > picks, there)
        off = (found.sum(2, keepdim=True) - sizes.clamp(max=picks)).abs().amax()
        if not (found.amin() >= 0 and (found - there).amax() <= ROUNDING and off <= ROUNDING):
            raise FairbanditError(
                f"{self} gave inclusion probabilities between rounds "
                f"{int(candidates.rounds[0])} and {int(candidates.rounds[-1])} that are not from 0 "
                f"to 1, not 0 at empty places, or do not sum to {picks}"
            )
        return found.minimum(there)

    def _shortlist(self, candidates: Candidates, index: Tensor, picks: int) -> Selection:
        """Picks m > 1 places of each pool."""
        inclusion = self._checked_inclusion(candidates, index, picks)
        sizes = candidates.present.sum(2, keepdim=True).clamp(max=picks)
        possible = inclusion > 0
        if int(possible.count_nonzero()) > int(sizes.sum()):
            stream = candidates.problem.streams[Purpose.SELECTOR]
            start = stream.uniform(int(candidates.rounds[0]), index.shape[1], 1)[..., 0]
            places = systematic(inclusion, sizes[..., 0], start, candidates._draws(Purpose.ORDER))
        else:  # no pool leaves a choice
            slots = torch.arange(1, picks + 1, device=index.device).expand(*sizes.shape[:2], -1)
            places = torch.searchsorted(possible.cumsum(2), slots.contiguous())
        empty = places == index.shape[2]
        order = _preferred(candidates, index, places.masked_fill(empty, 0), empty)
        propensities = inclusion.gather(2, order).masked_fill(empty, torch.nan)
        return Selection(order.masked_fill(empty, -1), propensities, inclusion)

    def _inclusion(self, candidates: Candidates, index: Tensor, picks: int) -> Tensor:
        """The probability of each place to be among m > 1 picks: (B, N, K) with the sum m.

        What it gives for pools of at most m candidates does not count.
        """
        raise FairbanditError(
            f"{self} states the weights of one pick alone; for shortlists, "
            "write `_inclusion(candidates, index, picks)`: the probability of each place to be "
            "among the picks, (B, N, K), 0 at empty places and with the sum `picks`"
        )

    @abstractmethod
    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        """Weights of all places, (B, N, K): finite, not negative, and 0 at empty places.

        They need not be normalised.
        """

    def _unsound(self, weights: Tensor, candidates: Candidates) -> FairbanditError:
        present, total = candidates.present, weights.sum(2)
        sound = ((weights >= 0) & (present | (weights == 0))).all(2) & (total > 0)
        b, n = (~(sound & total.isfinite())).nonzero()[0].tolist()
        return FairbanditError(
            f"{self} gave weights {weights[b, n].tolist()} at replica "
            f"{candidates.problem.streams.replicas[b]}, round {candidates.rounds[n]}; expected "
            "finite numbers of at least 0, some above 0, and 0 at empty places; the pool has "
            f"candidates at {present[b, n].nonzero()[:, 0].tolist()}"
        )


def best(candidates: Candidates, index: Tensor, among: Tensor) -> Tensor:
    """Which of some places of each pool tie with the greatest index of these places.

    An index i with the tie ceiling c may be any number from 2i − c to c. A place is among the best
    if it may be as great as every other one, so that all places are that would be the best, were
    there no rounding.

    Args:
        candidates: N rounds of candidates, with the tie ceiling of their index.
        index: (B, N, K).
        among: the places to choose from, (B, N, K) bool, none of them empty.

    Returns:
        (B, N, K) bool; nowhere true in a pool of which no place is among them.
    """
    floor, ceiling = ends(candidates, index)
    return (ceiling >= floor.where(among, -torch.inf).amax(2, keepdim=True)) & among


def ends(candidates: Candidates, index: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the greatest number that each index may be, (B, N, K) both; see `best`.

    An index that a selector makes of the rank's is taken to be as far off as that.
    """
    own = candidates.index
    if (candidates._apart and index is own) or (ceiling := candidates.tie_ceiling) is own:
        return index, index
    off = ceiling - own
    return index - off, index + off


def best_picks(candidates: Candidates, index: Tensor, picks: int) -> Tensor:
    """The inclusion probabilities of the m best of each pool, (B, N, K).

    They are 1 for those who are certainly among the m best, and those who tie for the last places
    share them. What it gives for pools of at most m candidates does not count.
    """
    if picks >= index.shape[2]:
        return candidates.present.to(index.dtype)
    floor, ceiling = (end.where(candidates.present, -torch.inf) for end in ends(candidates, index))
    certain = floor > ceiling.topk(picks + 1, 2).values[..., -1:]
    tied = (ceiling >= floor.topk(picks, 2).values[..., -1:]) & ~certain
    left = picks - certain.sum(2, keepdim=True).to(index.dtype)
    return (left / tied.sum(2, keepdim=True).clamp(min=1)).where(tied, certain.to(index.dtype))


def best_of_groups(candidates: Candidates, index: Tensor, amount: Tensor | None = None) -> Tensor:
    """1 for the best of each group, (B, N, K), or an amount (B, N, G); those that tie share it."""
    own, present = candidates.groups.clamp(min=0), candidates.present
    none = index.new_zeros(*index.shape[:2], candidates.problem.groups)
    floor, ceiling = ends(candidates, index)
    floor = floor.where(present, -torch.inf)
    greatest = (none - torch.inf).scatter_reduce(2, own, floor, "amax").gather(2, own)
    top = ((ceiling >= greatest) & present).to(index.dtype)
    count = none.scatter_add(2, own, top).gather(2, own).clamp(min=1)
    return top * ((1 if amount is None else amount.gather(2, own)) / count)


def best_first(
    candidates: Candidates,
    index: Tensor,
    capacity: Tensor,
    amount: Tensor,
    kinds: Tensor | None = None,
) -> Tensor:
    """An amount that is given to the best first, up to their capacities (B, N, K).

    Those that tie share alike. The amount is (B, N, 1), or one for each kind; see `filled`.
    """
    return filled(*ends(candidates, index), capacity, amount, kinds)


def _preferred(candidates: Candidates, index: Tensor, places: Tensor, empty: Tensor) -> Tensor:
    """Some places of each pool, (B, N, m): the better ones first, and the empty slots last.

    Those that tie stay in their order.
    """
    floor, ceiling = ends(candidates, index)
    high = ceiling.gather(2, places).masked_fill(empty, -torch.inf)
    high, order = high.sort(dim=2, descending=True, stable=True)
    if floor is not ceiling:
        low = floor.gather(2, places).masked_fill(empty, -torch.inf)
        ordered = low.gather(2, order)[..., :-1]
        if not bool((ordered > high[..., 1:]).logical_or_(ordered == -torch.inf).all()):
            high = ceiling.gather(2, places)
            better, _ = standing(low, high, (~empty).to(low.dtype))
            order = better.masked_fill(empty, torch.inf).sort(dim=2, stable=True).indices
    return places.gather(2, order)
