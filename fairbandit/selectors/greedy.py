"""The greatest index: the paper's selector, and with exploration at random."""

from __future__ import annotations

from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.errors import FairbanditError
from fairbandit.part import PAPER
from fairbandit.registry import register
from fairbandit.selectors.base import Selector, best


@register("selector", "argmax")
class Argmax(Selector):
    """The candidate of greatest index; ties are broken uniformly at random.

    a_t ~ U[argmax_a index_a] (Algorithms 1 and 2, line 7); an empty place is never picked.
    """

    reference = PAPER

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return best(candidates, index, candidates.present)


@register("selector", "epsilon_greedy")
class EpsilonGreedy(Selector):
    """The best candidate with probability 1 − ε, any one of the pool with probability ε.

    π_a = (1 − ε)·1{a is best}/m + ε/n with m candidates that tie for the best and n in the pool:
    each candidate has at least the probability ε/n. ε is the same in all rounds.

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
