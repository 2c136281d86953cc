"""A rank with one fault: it returns the same tensor every time."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Problem, Rank


@register("rank", "broken_buffer")
class Reusing(Rank):
    """The score, in a buffer of its own."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    _buffers: dict[torch.Size, Tensor]

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._buffers = {}

    def _index(self, candidates: Candidates) -> Tensor:
        shape = candidates.groups.shape
        buffer = self._buffers.setdefault(shape, candidates.scores.clone())
        return buffer.copy_(candidates.scores)
