"""A rank with one fault: it fails with an error of its own."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_raise")
class Raising(Rank):
    """Looks up what is not there."""

    reference = "these tests"

    def _index(self, candidates: Candidates) -> Tensor:
        weights: dict[str, float] = {}
        return candidates.scores * weights["bandwidth"]
