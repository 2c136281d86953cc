"""An estimator with one fault: it weighs down the contexts whose rewards come late."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Ridge


@register("estimator", "broken_amend")
class Weighing(Ridge):
    """Ridge regression in which late rewards count for half."""

    reference = "these tests"

    def amend(self, contexts: Tensor, rewards: Tensor) -> None:
        super().amend(contexts.mul_(0.5), rewards * 0.5)
