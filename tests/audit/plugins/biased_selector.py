"""A selector with a bias: of candidates that tie it always picks the first."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Selector


@register("selector", "first_of_ties")
class FirstOfTies(Selector):
    """The first candidate of greatest index, so that ties favour the first group."""

    reference = "these tests"

    def _select(self, first: int, index: Tensor, tie: Tensor, present: Tensor) -> Tensor:
        greatest = index.masked_fill(~present, -torch.inf).amax(2, keepdim=True)
        return ((tie >= greatest) & present).to(torch.uint8).argmax(2)
