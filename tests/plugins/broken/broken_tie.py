"""A rank with one fault: its upper index is the index itself, made larger."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_tie")
class Lifting(Rank):
    """The score."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores.clone()

    def upper_index(self, index: Tensor, candidates: Candidates) -> Tensor:
        return index.add_(candidates.upper_scores - candidates.scores)
