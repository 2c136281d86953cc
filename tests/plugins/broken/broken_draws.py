"""A rank with one fault: it rounds the random draws that it was given."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_draws")
class Rounding(Rank):
    """A draw of 0 or 1."""

    reference = "these tests"
    draws = True

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.uniform().round_()
