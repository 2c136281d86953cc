"""A rank with one fault: it goes on in the very tensors of the state that it loaded."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Problem, Rank


@register("rank", "broken_loaded")
class Sharing(Rank):
    """The score; beside it a sum of all contexts."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._sum = problem.zeros(problem.replicas, problem.features)

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        self._sum += contexts.sum((1, 2))

    def state(self) -> dict[str, Tensor | int | float]:
        return {"sum": self._sum.clone()}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._sum = state["sum"]

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores
