"""Selectors: pick one candidate of each pool, with known probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Part
from fairbandit.parts.candidates import Candidates
from fairbandit.parts.splits import PAPER
from fairbandit.registry import base, register
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
    """Picks a place with a probability in proportion to its weight; a subclass writes `_weights`.

    A part never changes a tensor that it was given: the candidates' and the index are others' too.
    """

    draws = True

    def select(self, candidates: Candidates, index: Tensor) -> Selection:
        """Picks one place of each pool.

        With the round's one uniform number u and the places' weights w, it is the first place
        whose cumulative weight exceeds u·Σw.

        Args:
            candidates: N rounds of candidates, with their upper index and bounds on the index.
            index: (B, N, K), to be maximised.

        Returns:
            The picks, and how likely they were. The probabilities hold given the past, and given
            the round's draws of the estimator and the rank.

        Raises:
            FairbanditError: a pool without candidates, or weights that are not non-negative, or
                are positive at an empty place or nowhere.
        """
        weights = self._weights(candidates, index)
        if weights.shape != index.shape:
            raise FairbanditError(
                f"selector {self.part_name!r} gave weights of shape {tuple(weights.shape)}; "
                f"expected (B, N, K) = {tuple(index.shape)}"
            )
        positive = weights if weights.dtype is torch.bool else weights > 0
        some, actions = positive.max(2)
        if not bool(some.all()) or bool((positive > candidates.present).any()):
            raise self._unsound(candidates, weights)
        if positive is not weights:
            total = weights.sum(2)
            if not bool((weights >= 0).all()) or not bool(total.isfinite().all()):
                raise self._unsound(candidates, weights)
        if int(positive.count_nonzero()) == actions.numel():  # no pool leaves a choice
            return Selection(actions, index.new_ones(actions.shape), weights)
        weights = weights.to(index.dtype)
        cumulative = weights.cumsum(2)
        draw = self.problem.streams[Purpose.SELECTOR].uniform(candidates.first, index.shape[1], 1)
        exceeds = cumulative > draw * cumulative[..., -1:]
        actions = exceeds.to(torch.uint8).argmax(2)
        propensities = weights.gather(2, actions[..., None]) / weights.sum(2, keepdim=True)
        return Selection(actions, propensities[..., 0], weights)

    @abstractmethod
    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        """Weights of all places, (B, N, K): finite, not negative, and 0 at empty places.

        They need not be normalised.
        """

    def _unsound(self, candidates: Candidates, weights: Tensor) -> FairbanditError:
        """What is wrong with some weights, and where."""
        present = candidates.present
        total = weights.sum(2)
        wrong = (weights < 0) | (weights != 0) & ~present | ~weights.isfinite()
        rounds = (wrong.any(2) | ~(total > 0) | ~total.isfinite()).nonzero()
        b, n = rounds[0].tolist()
        where = f"at replica {self.problem.streams.replicas[b]}, round {candidates.first + int(n)}"
        if not bool(present[b, n].any()):
            return FairbanditError(f"the pool {where} has no candidates")
        if bool((candidates.upper_index < candidates.index)[b, n][present[b, n]].any()):
            return FairbanditError(
                f"the rank's `upper_index` must be as large as the index or larger; {where} it is "
                "smaller"
            )
        return FairbanditError(
            f"selector {self.part_name!r} gave weights {weights[b, n].tolist()} {where}; expected "
            "finite numbers of at least 0, some above 0, and 0 beside the places "
            f"{present[b, n].nonzero()[:, 0].tolist()}"
        )


def best(candidates: Candidates, index: Tensor, among: Tensor) -> Tensor:
    """Which of some places of each pool tie with the greatest index of these places.

    Args:
        candidates: N rounds of candidates, with their upper index.
        index: (B, N, K).
        among: the places to choose from, (B, N, K) bool, none of them empty.

    Returns:
        (B, N, K) bool; nowhere true in a pool of which no place is among them.
    """
    greatest = index.where(among, -torch.inf).amax(2, keepdim=True)
    return (candidates.upper_index >= greatest) & among


@register("selector", "argmax")
class Argmax(Selector):
    """The candidate of greatest index; ties are broken uniformly at random.

    a_t ~ U[argmax_a index_a] (Algorithms 1 and 2, line 7); an empty place is never picked.
    """

    reference = PAPER

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return best(candidates, index, candidates.present)
