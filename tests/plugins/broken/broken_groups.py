"""A rank with one fault: it makes every empty place one of the first group."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_groups")
class Filling(Rank):
    """The group's code."""

    reference = "these tests"

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.groups.clamp_(min=0).double() / 2
