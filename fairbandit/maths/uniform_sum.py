"""The exact distribution of a weighted sum of independent uniforms (weighted Irwin-Hall)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError

MAX_TERMS = 12
"""The most nonzero weights m of a group: the sum has 2^m terms."""

ACCURACY = 1e-9
"""The largest rounding error that the alternating sum may have."""

RANGE = 650.0
"""The largest |ln totalᵐ| for which no term of the sum underflows or overflows."""


class UniformSums:
    """The CDFs of weighted sums of independent uniforms, one for each of several groups.

    Args:
        weights: each group's w, at most `MAX_TERMS` of them nonzero.
        offsets: a constant added to each group's sum.

    Raises:
        FairbanditError: weights for which `uniform_sum_cdf` is not exact.

    >>> cdf = UniformSums([[1.0, 1.0], [2.0]], [0.0, 1.0])
    >>> cdf(torch.tensor([0, 0, 1]), torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64))
    tensor([0.1250, 0.5000, 0.2500], dtype=torch.float64)
    """

    def __init__(self, weights: Sequence[Sequence[float]], offsets: Sequence[float]) -> None:
        self._sums = [(tuple(own), offset) for own, offset in zip(weights, offsets, strict=True)]
        for own, _ in self._sums:
            _expansion(own)

    def __call__(self, groups: Tensor, values: Tensor, rounds: Tensor | None = None) -> Tensor:
        """P(offset + Σᵢ wᵢUᵢ ≤ v) at values of groups of one shape; 0 where the group is −1."""
        shares = torch.zeros_like(values)
        for group, (weights, offset) in enumerate(self._sums):
            own = groups == group
            shares[own] = uniform_sum_cdf(values[own], weights, offset)
        return shares


def uniform_sum_cdf(values: Tensor, weights: Sequence[float], offset: float = 0.0) -> Tensor:
    """P(offset + Σᵢ wᵢUᵢ ≤ v) at values v of any shape.

    F(v) = 1/(m! ∏wᵢ) · Σ_{S ⊆ [m]} (−1)^{|S|} (v − Σ_{i∈S} wᵢ)₊^m for m positive weights. A
    negative weight is turned by U → 1 − U, a zero weight dropped, and values above the middle are
    read from the mirrored lower tail, where less cancels.

    Raises:
        FairbanditError: more than `MAX_TERMS` nonzero weights, or weights so uneven, large or small
            that the sum would be less accurate than `ACCURACY`.

    Reference:
        Hall, "The distribution of means for samples of size N drawn from a population in which
        the variate takes values between 0 and 1", Biometrika 1927.

    >>> uniform_sum_cdf(torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64), [1.0, 1.0])
    tensor([0.1250, 0.5000, 0.8750], dtype=torch.float64)
    """
    terms, subsets = _expansion(tuple(weights))
    shifted = values - (offset + sum(w for w in weights if w < 0))
    if not terms:
        return (shifted >= 0).to(values.dtype)
    mirrored = math.fsum(terms) - shifted
    edges, factors = subsets.to(values.device, values.dtype).view(2, -1, *[1] * values.ndim)
    powers = above = (torch.minimum(shifted, mirrored) - edges).clamp(min=0)
    for _ in terms[1:]:  # several times as fast as `pow`
        powers = powers * above
    tail = _total(powers * factors).clamp(0, 1)
    return torch.where(shifted > mirrored, 1 - tail, tail)


def uniform_sum_pdf(values: Tensor, weights: Sequence[float], offset: float = 0.0) -> Tensor:
    """The density of offset + Σᵢ wᵢUᵢ, one weight of which is not 0: the derivative of the CDF.

    Raises:
        FairbanditError: as `uniform_sum_cdf` does.
    """
    terms, subsets = _expansion(tuple(weights))
    shifted = values - offset - sum(w for w in weights if w < 0)
    lower = torch.minimum(shifted, math.fsum(terms) - shifted)
    density = torch.zeros_like(lower)
    for edge, factor in subsets.T.tolist():
        above = lower - edge
        power = torch.where(above >= 0, above.clamp(min=0) ** (len(terms) - 1), 0.0)
        density += len(terms) * factor * power
    return density


def _total(terms: Tensor) -> Tensor:
    """The sum over the first dimension, in an order that the other dimensions do not change."""
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        terms[: len(terms) - half] += terms[half:]
        terms = terms[:half]
    return terms[0]


@cache
def _expansion(weights: tuple[float, ...]) -> tuple[list[float], Tensor]:
    """The magnitudes of nonzero weights, and their subsets whose sum is in the lower half.

    The subsets are (2, S): the sum of each, and the factor of its power.
    """
    terms = [abs(w) for w in weights if w != 0]
    total = math.fsum(terms)
    # the logarithms of totalᵐ and of totalᵐ/(m! ∏w), since tiny weights underflow
    size = len(terms) * math.log(total) if terms else 0.0
    loss = sum(math.log(total / w) for w in terms) - math.lgamma(len(terms) + 1)
    inexact = abs(size) > RANGE or loss > math.log(ACCURACY / torch.finfo(torch.float64).eps)
    if len(terms) > MAX_TERMS or inexact:
        raise FairbanditError(
            f"the exact CDF takes at most {MAX_TERMS} nonzero weights a group, near to each other "
            f"and to 1; got {terms}, which the sampled CDF takes"
        )
    scale = math.factorial(len(terms)) * math.prod(terms)
    every = [one for size in range(len(terms) + 1) for one in combinations(terms, size)]
    lower = [one for one in every if math.fsum(one) < total / 2]
    rows = [[math.fsum(one) for one in lower], [(-1) ** len(one) / scale for one in lower]]
    return terms, torch.tensor(rows, dtype=torch.float64)
