"""No rank: the score as it is."""

from __future__ import annotations

from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.part import PAPER
from fairbandit.ranks.base import Rank
from fairbandit.registry import register


@register("rank", "identity")
class Identity(Rank):
    """The score itself: rewards of different groups are compared as they are."""

    reference = PAPER
    range = (-float("inf"), float("inf"))

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores

    def _tie_ceiling(self, candidates: Candidates, index: Tensor) -> Tensor:
        return candidates.scores + candidates.errors

    def _bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        return candidates.bounds()
