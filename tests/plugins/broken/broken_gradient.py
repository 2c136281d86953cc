"""A rank with one fault: its index requires grad."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Problem, Rank


@register("rank", "broken_gradient")
class Differentiable(Rank):
    """The score times a weight that could be learned."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._weight = torch.ones((), dtype=problem.dtype, requires_grad=True)

    def _index(self, candidates: Candidates) -> Tensor:
        return self._weight * candidates.scores
