"""The exact distribution of a weighted sum of independent uniforms (weighted Irwin-Hall)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError

MAX_TERMS = 12
"""The sum has 2^m terms; above so many nonzero weights it takes too long."""

ACCURACY = 1e-9
"""The rounding error that the alternating sum may have."""


def uniform_sum_cdf(values: Tensor, weights: Sequence[float], offset: float = 0.0) -> Tensor:
    """P(offset + Σᵢ wᵢUᵢ ≤ v) for independent Uᵢ uniform on [0, 1].

    F(v) = 1/(m! ∏wᵢ) · Σ_{S ⊆ [m]} (−1)^{|S|} (v − Σ_{i∈S} wᵢ)₊^m for m positive weights. A
    negative weight is turned by U → 1 − U, a zero weight dropped, and values above the middle are
    read from the mirrored lower tail, where less cancels.

    Args:
        values: v, any shape.
        weights: w, at most `MAX_TERMS` of them nonzero.
        offset: a constant added to the sum.

    Returns:
        The CDF at the values, the same shape, in [0, 1].

    Raises:
        FairbanditError: more than `MAX_TERMS` nonzero weights, or weights so uneven that the sum
            would be less accurate than `ACCURACY`.

    Reference:
        Hall, "The distribution of means for samples of size N drawn from a population in which
        the variate takes values between 0 and 1", Biometrika 1927.

    >>> uniform_sum_cdf(torch.tensor([0.5, 1.0, 1.5]), [1.0, 1.0])
    tensor([0.1250, 0.5000, 0.8750])
    """
    terms = _terms(weights)
    shifted = values - offset - sum(w for w in weights if w < 0)
    if not terms:
        return (shifted >= 0).to(values.dtype)
    total = math.fsum(terms)
    upper = shifted > total / 2
    lower = torch.where(upper, total - shifted, shifted).clamp(min=0)
    tail = torch.zeros_like(lower)
    for size in range(len(terms) + 1):
        for subset in combinations(terms, size):
            edge = math.fsum(subset)
            if edge < total / 2:
                tail += (-1) ** size * (lower - edge).clamp(min=0) ** len(terms)
    tail = (tail / (math.factorial(len(terms)) * math.prod(terms))).clamp(0, 1)
    return torch.where(upper, 1 - tail, tail)


def uniform_sum_pdf(values: Tensor, weights: Sequence[float], offset: float = 0.0) -> Tensor:
    """The density of offset + Σᵢ wᵢUᵢ, the derivative of `uniform_sum_cdf`.

    f(v) = 1/((m−1)! ∏wᵢ) · Σ_{S ⊆ [m]} (−1)^{|S|} (v − Σ_{i∈S} wᵢ)₊^{m−1}; see
    `uniform_sum_cdf` for the arguments.

    Raises:
        FairbanditError: no nonzero weight (there is no density), and those of the CDF.
    """
    terms = _terms(weights)
    if not terms:
        raise FairbanditError("a density takes at least one nonzero weight, got none")
    shifted = values - offset - sum(w for w in weights if w < 0)
    total = math.fsum(terms)
    lower = torch.where(shifted > total / 2, total - shifted, shifted)
    density = torch.zeros_like(lower)
    for size in range(len(terms) + 1):
        for subset in combinations(terms, size):
            above = lower - math.fsum(subset)
            power = above.clamp(min=0) ** (len(terms) - 1)
            density += (-1) ** size * torch.where(above >= 0, power, 0.0)
    return density / (math.factorial(len(terms) - 1) * math.prod(terms))


def _terms(weights: Sequence[float]) -> list[float]:
    """The sizes of the nonzero weights, if the alternating sum over them can be trusted."""
    terms = [abs(w) for w in weights if w != 0]
    if len(terms) > MAX_TERMS:
        raise FairbanditError(
            f"the exact CDF takes at most {MAX_TERMS} nonzero weights a group, got {len(terms)}; "
            "use the sampled CDF"
        )
    # log of eps·total^m/(m! ∏w), in logs since tiny weights underflow
    loss = sum(math.log(math.fsum(terms) / w) for w in terms) - math.lgamma(len(terms) + 1)
    if loss > math.log(ACCURACY / torch.finfo(torch.float64).eps):
        raise FairbanditError(
            f"the exact CDF of weights {terms} would lose too many digits, so uneven are they; "
            "drop the smallest, or use the sampled CDF"
        )
    return terms
