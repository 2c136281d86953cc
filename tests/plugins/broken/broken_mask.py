"""A selector with one fault: it masks the index that it was given."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Selector


@register("selector", "broken_mask")
class Masking(Selector):
    """The first candidate of greatest index."""

    reference = "these tests"

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        best = index.masked_fill_(~candidates.present, -torch.inf).argmax(2)
        return torch.nn.functional.one_hot(best, index.shape[2])
