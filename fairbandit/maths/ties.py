"""The tie tolerance: when two scores count as equal.

The same person can be drawn twice, and two kernels may score equal contexts a few units in the
last place apart. A value therefore counts as at most a score s if it is at most the *upper score*
s + 8·eps·Σᵢ|xᵢθᵢ|. This covers rounding only: at ρ = 1e-8 real differences are tiny, and a wider
tolerance would undo the parity that the injected noise gives.
"""

import torch
from torch import Tensor

TOLERANCE = 8 * torch.finfo(torch.float64).eps
"""The largest rounding difference of two computations of a score, relative to Σᵢ|xᵢθᵢ|."""


def upper_score(scores: Tensor, magnitudes: Tensor) -> Tensor:
    """The upper end s + 8·eps·m of the values that count as equal to a score s = Σᵢ xᵢθᵢ.

    Args:
        scores: s, any shape.
        magnitudes: m = Σᵢ|xᵢθᵢ|, the same shape; eps·m bounds the rounding of s, eps being that
            of double precision.

    Returns:
        Upper scores, the same shape. Callers treat a value v as v ≤ s if v ≤ the upper score.
    """
    return scores + TOLERANCE * magnitudes
