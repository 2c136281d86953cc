"""A rank with one fault: it makes the counts of past contexts at least 1."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_count")
class Counting(Rank):
    """The empirical CDF."""

    reference = "these tests"
    needs = frozenset({"contexts"})

    def _index(self, candidates: Candidates) -> Tensor:
        past = candidates.past
        return past.count_le(candidates.scores) / past.count.clamp_(min=1)
