"""A rank with one fault: it centres the scores that it was given."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_scores")
class Centring(Rank):
    """The score above the pool's average."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores.sub_(candidates.scores.mean(2, keepdim=True)).clone()
