"""A rank with one fault: NaN where a group has no past."""

from torch import Tensor

from fairbandit import register
from fairbandit.ranks import Rank, Scored


@register("rank", "broken_nan")
class NotANumber(Rank):
    """The empirical CDF, with 0/0 for a group that the window lacks."""

    needs = frozenset({"contexts"})

    def _index(self, scored: Scored) -> Tensor:
        return scored.past.count_le() / scored.past.count
