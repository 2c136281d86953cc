"""A rank with one fault: the index has the wrong shape."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_shape")
class WrongShape(Rank):
    """Gives one index a pool, not one a candidate."""

    reference = "these tests"
    needs = frozenset({"contexts"})

    def _index(self, candidates: Candidates) -> Tensor:
        share = candidates.past.at_most(candidates.upper_scores) / candidates.past.count.clamp(
            min=1
        )
        return share.amax(-1)
