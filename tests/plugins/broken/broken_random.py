"""A rank with one fault: it draws from torch's global generator."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_random")
class GlobalDraws(Rank):
    """A rank drawn from U(0, 1), out of the wrong urn."""

    reference = "these tests"
    draws = True

    def _index(self, candidates: Candidates) -> Tensor:
        return torch.rand(candidates.groups.shape, dtype=torch.float64)
