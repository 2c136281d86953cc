"""Selectors: pick one candidate of each pool, with known probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.errors import FairbanditError
from fairbandit.part import Part
from fairbandit.registry import base
from fairbandit.streams import Purpose


class Selection(NamedTuple):
    """The picks of N rounds.

    Attributes:
        actions: the places picked, (B, N) int64.
        propensities: the probability of each pick, (B, N).
        weights: what the probabilities are proportional to, (B, N, K).
    """

    actions: Tensor
    propensities: Tensor
    weights: Tensor

    @property
    def probabilities(self) -> Tensor:
        """The probability of each place, (B, N, K)."""
        weights = self.weights.to(self.propensities.dtype)
        return weights / weights.sum(2, keepdim=True)


@base("selector")
class Selector(Part):
    """Picks a place with a probability proportional to its weight; a subclass writes `_weights`."""

    def select(self, candidates: Candidates, index: Tensor) -> Selection:
        """Picks one place of each pool.

        With the round's one uniform number u and the places' weights w, it is the first place
        whose cumulative weight exceeds u·Σw.

        Args:
            candidates: N rounds of candidates, with their index and its tie ceiling.
            index: (B, N, K), to be maximised.

        Returns:
            The picks, and how likely they were. The probabilities hold given the past, and given
            the round's draws of the estimator and the rank.

        Raises:
            FairbanditError: weights of the wrong shape, negative, not finite, positive at an empty
                place, or 0 at all places, as those of a pool without candidates must be.
        """
        weights = self._weights(candidates, index)
        if weights.shape != index.shape:
            raise FairbanditError(
                f"selector {self.part_name!r} gave weights of shape {tuple(weights.shape)}; "
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
        actions = exceeds.to(torch.uint8).argmax(2)
        propensities = weights.gather(2, actions[..., None]) / weights.sum(2, keepdim=True)
        return Selection(actions, propensities[..., 0], weights)

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
            f"selector {self.part_name!r} gave weights {weights[b, n].tolist()} at replica "
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
    ceiling = index if candidates.apart and index is candidates.index else candidates.tie_ceiling
    floor = index if ceiling is index else 2 * index - ceiling
    return (ceiling >= floor.where(among, -torch.inf).amax(2, keepdim=True)) & among
