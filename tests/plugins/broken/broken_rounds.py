"""A split with one fault: it moves the rounds that it was asked about."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Spans, Split


@register("split", "broken_rounds")
class Moving(Split):
    """All past rounds teach and feed the ranks."""

    reference = "these tests"

    def _spans(self, t: Tensor) -> Spans:
        past = t.sub_(1)
        return Spans(taught=past, after=past - past, until=past)
