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
    """The largest value that counts as equal to a score s = Σᵢ xᵢθᵢ: s + 8·eps·m, eps = 2⁻⁵².

    Args:
        scores: s, any shape, float64.
        magnitudes: m = Σᵢ|xᵢθᵢ|, the same shape: eps·m is the scale of the rounding error of s.

    Returns:
        The upper scores, the same shape. `v <= upper_score(s, m)` stands for v ≤ s.
    """
    return scores + TOLERANCE * magnitudes
