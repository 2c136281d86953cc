"""An estimator with one fault: it flips the contexts whose rewards come late."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Ridge


@register("estimator", "broken_amend")
class Flipping(Ridge):
    """Ridge regression, which is the same for −x with −r as for x with r."""

    reference = "these tests"

    def amend(self, contexts: Tensor, rewards: Tensor) -> None:
        super().amend(contexts.neg_(), -rewards)
