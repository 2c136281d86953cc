"""A selector with one fault: it masks the index that it was given."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Selector


@register("selector", "broken_mask")
class Masking(Selector):
    """The first candidate of greatest index."""

    reference = "these tests"

    def _select(self, first: int, index: Tensor, tie: Tensor, present: Tensor) -> Tensor:
        return index.masked_fill_(~present, -torch.inf).argmax(2)
