"""A rank with one fault: the index falls as the score rises."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_falling")
class Falling(Rank):
    """One minus the empirical CDF."""

    reference = "these tests"
    needs = frozenset({"contexts"})

    def _index(self, candidates: Candidates) -> Tensor:
        past = candidates.past
        return 1 - past.count_le(candidates.scores) / past.count.clamp(min=1)
