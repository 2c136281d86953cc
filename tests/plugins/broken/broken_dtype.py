"""A rank with one fault: it sets torch's default dtype."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Problem, Rank


@register("rank", "broken_dtype")
class Setting(Rank):
    """The score."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        torch.set_default_dtype(torch.float64)

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores
