"""A selector with a bias: of candidates that tie it always picks the first."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Selector


@register("selector", "first_of_ties")
class FirstOfTies(Selector):
    """The first candidate of greatest index, so that ties favour the first group."""

    reference = "these tests"

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        present = candidates.present
        greatest = index.masked_fill(~present, -torch.inf).amax(2, keepdim=True)
        first = ((candidates.upper_index >= greatest) & present).to(torch.uint8).argmax(2)
        return torch.nn.functional.one_hot(first, index.shape[2])
