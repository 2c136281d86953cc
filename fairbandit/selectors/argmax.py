"""The paper's selector: the greatest index."""

from __future__ import annotations

from torch import Tensor

from fairbandit.candidates import Candidates
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
