"""When two scores count as equal: the one place that says so.

The same person can be drawn twice, and two kernels may score equal contexts a few units in the
last place apart. So a value counts as at most a score s when it is at most the *upper score*
s + 8·eps·Σᵢ|xᵢθᵢ|, which covers rounding and nothing else: at ρ = 1e-8 real differences are tiny,
and a wider rule would undo the parity that the injected noise buys.
"""

import torch
from torch import Tensor

TOLERANCE = 8 * torch.finfo(torch.float64).eps
"""Rounding that two ways of computing one score may differ by, relative to Σᵢ|xᵢθᵢ|."""


def upper_score(scores: Tensor, magnitudes: Tensor) -> Tensor:
    """The largest value that ties with a score: s + 8·eps·m.

    Args:
        scores: s, any shape.
        magnitudes: m = Σᵢ|xᵢθᵢ|, the same shape.

    Returns:
        The upper scores, the same shape. A value counts as ≤ s if it is ≤ the upper score.
    """
    return scores + TOLERANCE * magnitudes
