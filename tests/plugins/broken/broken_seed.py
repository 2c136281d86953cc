"""A rank with one fault: it seeds torch's global generator."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_seed")
class Seeding(Rank):
    """The score."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    def _index(self, candidates: Candidates) -> Tensor:
        torch.manual_seed(0)
        return candidates.scores
