"""A rank with one fault: it doubles the contexts that it was given."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_contexts")
class Doubling(Rank):
    """The score of the doubled contexts."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    def _index(self, candidates: Candidates) -> Tensor:
        candidates.contexts.mul_(2)
        return candidates.own_model.score(candidates.contexts, candidates.groups)
