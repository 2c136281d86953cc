"""A rank with one fault: it changes pools after it has observed them."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Problem, Rank


@register("rank", "broken_observed")
class Hoarding(Rank):
    """The score; the last pools are halved when the next ones come."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._last = problem.zeros(0)

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        self._last.div_(2)
        self._last = contexts

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores
