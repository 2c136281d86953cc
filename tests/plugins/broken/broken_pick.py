"""A selector with one fault: it draws from NumPy's global generator."""

import numpy as np
import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Selector


@register("selector", "broken_pick")
class GlobalPicks(Selector):
    """The best of some candidates that are left out at random."""

    reference = "these tests"
    draws = True

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        kept = torch.from_numpy(np.random.uniform(size=index.shape)) < 0.9  # noqa: NPY002
        least = index.where(candidates.present & kept, -1e9)
        best = least.where(candidates.present, -torch.inf).argmax(2)
        return torch.nn.functional.one_hot(best, index.shape[2])
