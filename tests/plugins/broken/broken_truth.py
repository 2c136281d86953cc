"""A rank with one fault: it changes the true reward model."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_truth")
class Flipping(Rank):
    """The score under −θ."""

    reference = "these tests"
    needs_truth = True
    range = (-float("inf"), float("inf"))

    def _index(self, candidates: Candidates) -> Tensor:
        assert self.problem.truth is not None
        theta = self.problem.truth.linear_theta().neg_()
        return candidates.contexts @ theta
