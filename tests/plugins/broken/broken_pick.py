"""A selector with one fault: it draws from NumPy's global generator."""

import numpy as np
import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Selector


@register("selector", "broken_pick")
class GlobalPicks(Selector):
    """The best of some candidates that are left out at random."""

    reference = "these tests"
    draws = True

    def _select(self, first: int, index: Tensor, tie: Tensor, present: Tensor) -> Tensor:
        kept = torch.from_numpy(np.random.uniform(size=index.shape)) < 0.9  # noqa: NPY002
        return index.masked_fill(~present, -torch.inf).where(kept | ~present, -1e9).argmax(2)
