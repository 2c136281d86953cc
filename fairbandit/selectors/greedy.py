"""The greatest index: the paper's selector, also with random exploration."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fairbandit.registry import PAPER, Share, register
from fairbandit.selectors.base import Ranked, Selector, best


@register("selector", "argmax")
class Argmax(Selector):
    """The candidate of greatest index, or the m best candidates; ties are broken at random.

    a_t ~ U[argmax_a index_a] (Algorithms 1 and 2, line 7); an empty place is never picked. For m
    picks, π = 1 for candidates that are certainly among the m best, and candidates that tie for the
    last places share them equally.
    """

    reference = PAPER

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        return best(ranked.index, ranked.present, picks)


@register("selector", "epsilon_greedy")
@dataclass(kw_only=True, eq=False)
class EpsilonGreedy(Selector):
    """The best candidate with probability 1 − ε, a uniformly drawn candidate with probability ε.

    With n candidates in the pool, b of which tie for the best, π_a = (1 − ε)·1{a is best}/b + ε/n.
    Each candidate thus has at least the probability ε/n. ε is the same in all rounds. For m picks,
    π = (1 − ε)·π_argmax + ε·m/n, where π_argmax are the probabilities of `argmax`.

    Args:
        epsilon: ε, from 0 to 1.
    """

    reference = "Sutton, Barto, Reinforcement Learning: An Introduction, 2018, Sec. 2.2"

    epsilon: Share = 0.1

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        greatest, present = best(ranked.index, ranked.present, picks), ranked.present
        uniform = picks / present.sum(2, keepdim=True, dtype=greatest.dtype) * present
        return (1 - self.epsilon) * greatest + self.epsilon * uniform
