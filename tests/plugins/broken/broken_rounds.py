"""A split with one fault: it moves the rounds that it was asked about."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Division, Split


@register("split", "broken_rounds")
class Moving(Split):
    """All past rounds train the estimator and feed the ranks."""

    reference = "these tests"

    def _divide(self, t: Tensor) -> Division:
        past = t.sub_(1)
        return Division(n_train=past, start=past - past, stop=past)
