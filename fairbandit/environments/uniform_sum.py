"""The exact distribution of a weighted sum of independent uniforms (weighted Irwin-Hall)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairbandit.errors import FairbanditError

MAX_TERMS = 12
"""The largest number m of nonzero weights of a group, since the sum has 2^m terms."""

ACCURACY = 1e-9
"""The largest rounding error that the alternating sum may have."""

WORK = 1 << 16
"""The most terms computed at a time, so that they stay in cache."""

RANGE = 650.0
"""The largest |ln totalᵐ| for which no term of the sum underflows or overflows."""


class UniformSums:
    """The CDFs of weighted sums of independent uniforms, one for each of several groups.

    F(v) = 1/(m! ∏wᵢ) · Σ_{S ⊆ [m]} (−1)^{|S|} (v − Σ_{i∈S} wᵢ)₊^m for m positive weights. Negative
    weights are made positive by U → 1 − U, and zero weights are dropped. Values above the middle
    use the mirrored lower tail, where cancellation is smaller.

    At most `MAX_TERMS` weights of a group are not zero. Its offset is added to the sum.

    Reference:
        Hall, "The distribution of means for samples of size N drawn from a population in which
        the variate takes values between 0 and 1", Biometrika 1927.

    >>> cdf = UniformSums([[1.0, 1.0], [2.0]], [0.0, 1.0])
    >>> cdf(torch.tensor([0, 0, 1]), torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64))
    tensor([0.1250, 0.5000, 0.2500], dtype=torch.float64)
    """

    def __init__(self, weights: Sequence[Sequence[float]], offsets: Sequence[float]) -> None:
        expansions = [_expansion(tuple(terms)) for terms in weights]
        powers = [len(terms) for terms, _ in expansions]
        starts = [o + sum(w for w in ws if w < 0) for ws, o in zip(weights, offsets, strict=True)]
        totals = [math.fsum(terms) for terms, _ in expansions]
        self._frames = torch.tensor([starts, totals, powers], dtype=torch.float64)
        subsets = [rows.T for _, rows in expansions]  # padded with edge and factor 0
        self._subsets = pad_sequence(subsets).movedim(2, 0)  # (2, S, G)
        self._powers = powers

    def __call__(self, groups: Tensor, values: Tensor, rounds: Tensor | None = None) -> Tensor:
        """P(offset + Σᵢ wᵢUᵢ ≤ v) for each value v and its group; 0 where the group is −1."""
        size = max(WORK // self._subsets.shape[1], 1)
        codes = groups.clamp(min=0).flatten()
        parts = zip(codes.split(size), values.flatten().split(size), strict=True)
        shares = torch.cat([self._shares(*part) for part in parts])
        return shares.view(values.shape).masked_fill_(groups < 0, 0)

    def _shares(self, groups: Tensor, values: Tensor) -> Tensor:
        """The CDF of groups (n,), none of them −1, at values (n,)."""
        start, total, power = self._frames.to(values.device)[:, groups]
        edges, factors = self._subsets.to(values.device)[..., groups]
        shifted = values - start
        mirrored = total - shifted
        powers = above = (torch.minimum(shifted, mirrored) - edges).clamp_(min=0)
        for exponent in range(2, max(self._powers) + 1):  # several times as fast as `pow`
            counts = (power >= exponent).to(above.dtype)
            # a factor of 1 once the power is reached; this is faster than `torch.where`
            powers = powers * torch.addcmul(1 - counts, above, counts)
        tail = _total(powers.mul_(factors)).clamp_(0, 1)
        shares = torch.where(shifted > mirrored, 1 - tail, tail)
        return torch.where(power > 0, shares, (shifted >= 0).to(values.dtype))


def uniform_sum_pdf(values: Tensor, weights: Sequence[float], offset: float = 0.0) -> Tensor:
    """The density of offset + Σᵢ wᵢUᵢ, the derivative of the CDF; some weight must not be 0."""
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
    """The sum over the first dimension, in an order independent of the other dimensions."""
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        terms[: len(terms) - half] += terms[half:]
        terms = terms[:half]
    return terms[0]


@cache
def _expansion(weights: tuple[float, ...]) -> tuple[list[float], Tensor]:
    """The magnitudes of nonzero weights, and their subsets that sum to less than half the total.

    The subsets are (2, S): the sum of each subset, and the factor of its power.
    """
    terms = [abs(w) for w in weights if w != 0]
    total = math.fsum(terms)
    # logarithms of totalᵐ and of totalᵐ/(m! ∏w), since tiny weights underflow
    size = len(terms) * math.log(total) if terms else 0.0
    loss = sum(math.log(total / w) for w in terms) - math.lgamma(len(terms) + 1)
    inexact = abs(size) > RANGE or loss > math.log(ACCURACY / torch.finfo(torch.float64).eps)
    if len(terms) > MAX_TERMS or inexact:
        raise FairbanditError(
            f"the exact CDF takes at most {MAX_TERMS} nonzero weights a group, of similar size and "
            f"near 1; got {terms}; use the sampled CDF"
        )
    scale = math.factorial(len(terms)) * math.prod(terms)
    every = [subset for n in range(len(terms) + 1) for subset in combinations(terms, n)]
    lower = [s for s in every if math.fsum(s) < total / 2] or every  # without terms, total = 0
    rows = [[math.fsum(s) for s in lower], [(-1) ** len(s) / scale for s in lower]]
    return terms, torch.tensor(rows, dtype=torch.float64)
