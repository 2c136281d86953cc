"""The greatest index: the paper's selector, and with exploration at random."""

from __future__ import annotations

from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.errors import FairbanditError
from fairbandit.part import PAPER
from fairbandit.registry import register
from fairbandit.selectors.base import Selector, best, best_picks


@register("selector", "argmax")
class Argmax(Selector):
    """The candidate of greatest index, or the m of greatest; ties are broken at random.

    a_t ~ U[argmax_a index_a] (Algorithms 1 and 2, line 7); an empty place is never picked. Of m
    picks, π = 1 for those that are certainly among the m best, and those that tie for the last
    places share them equally.
    """

    reference = PAPER

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return best(candidates, index, candidates.present)

    def _inclusion(self, candidates: Candidates, index: Tensor, picks: int) -> Tensor:
        return best_picks(candidates, index, picks)


@register("selector", "epsilon_greedy")
class EpsilonGreedy(Selector):
    """The best candidate with probability 1 − ε, any one of the pool with probability ε.

    π_a = (1 − ε)·1{a is best}/m + ε/n with m candidates that tie for the best and n in the pool:
    each candidate has at least the probability ε/n. ε is the same in all rounds. Of m picks,
    π = (1 − ε)·π of `argmax` + ε·m/n.

    Args:
        epsilon: ε, from 0 to 1.

    Raises:
        FairbanditError: an epsilon out of range.
    """

    reference = "Sutton, Barto, Reinforcement Learning: An Introduction, 2018, Sec. 2.2"

    def __init__(self, *, epsilon: float = 0.1) -> None:
        if not 0 <= epsilon <= 1:
            raise FairbanditError(f"epsilon (ε) must be from 0 to 1, got {epsilon}")
        self.epsilon = epsilon

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        top, anyone = (
            places / places.sum(2, keepdim=True, dtype=index.dtype)
            for places in (best(candidates, index, candidates.present), candidates.present)
        )
        return (1 - self.epsilon) * top + self.epsilon * anyone

    def _inclusion(self, candidates: Candidates, index: Tensor, picks: int) -> Tensor:
        present = candidates.present.to(index.dtype)
        top = best_picks(candidates, index, picks)
        share = picks / present.sum(2, keepdim=True)
        return (1 - self.epsilon) * top + self.epsilon * (share * present)
