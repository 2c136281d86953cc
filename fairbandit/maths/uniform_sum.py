"""The exact distribution of a weighted sum of independent uniforms (weighted Irwin-Hall)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
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

WORK = 1 << 16
"""The most numbers in a work array, so that it stays in cache; only dimension 0 is split."""


class UniformSums:
    """The CDFs of weighted sums of independent uniforms, one for each of several groups.

    F(v) = 1/(m! ∏wᵢ) · Σ_{S ⊆ [m]} (−1)^{|S|} (v − Σ_{i∈S} wᵢ)₊^m for m positive weights. A
    negative weight is turned by U → 1 − U, a zero weight dropped, and values above the middle are
    read from the mirrored lower tail, where less cancels.

    Args:
        weights: each group's w, at most `MAX_TERMS` of them nonzero.
        offsets: a constant added to each group's sum.

    Raises:
        FairbanditError: more than `MAX_TERMS` nonzero weights, weights so uneven that the sum would
            be less accurate than `ACCURACY`, or so large or small that it leaves the range of
            double precision.

    Reference:
        Hall, "The distribution of means for samples of size N drawn from a population in which
        the variate takes values between 0 and 1", Biometrika 1927.

    >>> cdf = UniformSums([[1.0, 1.0], [2.0]], [0.0, 1.0])
    >>> cdf(torch.tensor([0, 0, 1]), torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64))
    tensor([0.1250, 0.5000, 0.2500], dtype=torch.float64)
    """

    def __init__(self, weights: Sequence[Sequence[float]], offsets: Sequence[float]) -> None:
        terms = [_terms(own) for own in weights]
        starts = [o + sum(w for w in own if w < 0) for own, o in zip(weights, offsets, strict=True)]
        totals = [math.fsum(own) for own in terms]
        self._frames = torch.tensor([starts, totals], dtype=torch.float64)
        self._power = torch.tensor([len(own) for own in terms])
        self._least, self._most = min(map(len, terms)), max(map(len, terms))
        expansions = [list(_expansion(*own)) for own in zip(terms, totals, strict=True)]
        # the subsets of every group, padded with subsets of weight 0
        most = max(map(len, expansions))
        filled = [own + [(0.0, 0.0)] * (most - len(own)) for own in expansions]
        shape = len(filled), most, 2  # `most` is 0 if all sums are constant
        table = torch.tensor(filled, dtype=torch.float64).view(shape)
        self._edge, self._weight = table.permute(2, 1, 0).contiguous()
        self._constant = torch.tensor([not own for own in terms])
        self._any_constant = not all(terms)

    def __call__(self, groups: Tensor, values: Tensor, rounds: Tensor | None = None) -> Tensor:
        """P(offset + Σᵢ wᵢUᵢ ≤ v), in [0, 1], at values v; groups have the same shape.

        Where a group is −1, which marks an empty place, the result is arbitrary.
        """
        work = len(self._edge) * values.numel()
        if work > WORK and len(values) > 1:
            size = max(len(values) * WORK // work, 1)
            parts = zip(groups.split(size), values.split(size), strict=True)
            return torch.cat([self(*part) for part in parts])
        # Places come first: if their groups are the same in all pools, they are looked up once.
        once = [slice(1) if step == 0 else slice(None) for step in groups.stride()]
        groups, values = groups[tuple(once)].movedim(-1, 0), values.movedim(-1, 0).contiguous()
        start, total = self._frames[:, groups]
        shifted = values - start
        mirrored = total - shifted
        above = (torch.minimum(shifted, mirrored) - self._edge[:, groups]).clamp_(min=0)
        tail = self._powers(above, groups).mul_(self._weight[:, groups])
        tail = _total(tail).clamp_(0, 1)
        shares = torch.where(shifted > mirrored, 1 - tail, tail)
        if self._any_constant:
            shares = torch.where(self._constant[groups], (shifted >= 0).to(shares.dtype), shares)
        return shares.movedim(0, -1)

    def _powers(self, base: Tensor, groups: Tensor) -> Tensor:
        """The m-th powers, m being each group's: several times as fast as `pow`."""
        power = self._power[groups]
        powers = running = base
        for exponent in range(2, self._most + 1):
            running = running * base
            every = exponent <= self._least
            powers = running if every else torch.where(power >= exponent, running, powers)
        return powers

    def to(self, device: torch.device) -> UniformSums:
        """The same CDFs on another device."""
        moved = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(moved, name, value.to(device))
        return moved


def uniform_sum_cdf(values: Tensor, weights: Sequence[float], offset: float = 0.0) -> Tensor:
    """P(offset + Σᵢ wᵢUᵢ ≤ v) at values v of any shape, for one group; see `UniformSums`.

    Raises:
        FairbanditError: as `UniformSums` does.

    >>> uniform_sum_cdf(torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64), [1.0, 1.0])
    tensor([0.1250, 0.5000, 0.8750], dtype=torch.float64)
    """
    cdf = UniformSums([weights], [offset]).to(values.device)
    return cdf(torch.zeros_like(values, dtype=torch.int64), values)


def _total(terms: Tensor) -> Tensor:
    """The sum over the first dimension, in an order that the other dimensions do not change."""
    left = len(terms)
    while left > 1:
        half = (left + 1) // 2
        terms[: left - half] += terms[half:left]
        left = half
    return terms.sum(0) if left == 0 else terms[0]


def _expansion(terms: list[float], total: float) -> Iterator[tuple[float, float]]:
    """The subsets whose sum is in the lower half: that sum, and what its power weighs."""
    scale = math.factorial(len(terms)) * math.prod(terms)
    for size in range(len(terms) + 1):
        for subset in combinations(terms, size):
            edge = math.fsum(subset)
            if edge < total / 2:
                yield edge, (-1) ** size / scale


def uniform_sum_pdf(values: Tensor, weights: Sequence[float], offset: float = 0.0) -> Tensor:
    """The density of offset + Σᵢ wᵢUᵢ, the derivative of `uniform_sum_cdf`.

    f(v) = 1/((m−1)! ∏wᵢ) · Σ_{S ⊆ [m]} (−1)^{|S|} (v − Σ_{i∈S} wᵢ)₊^{m−1}.

    Raises:
        FairbanditError: no nonzero weight (there is no density), and those of the CDF.
    """
    terms = _terms(weights)
    if not terms:
        raise FairbanditError("a density takes at least one nonzero weight, got none")
    total, power = math.fsum(terms), len(terms) - 1
    shifted = values - offset - sum(w for w in weights if w < 0)
    lower = torch.minimum(shifted, total - shifted)
    density = torch.zeros_like(lower)
    for edge, weight in _expansion(terms, total):
        above = lower - edge
        density += len(terms) * weight * torch.where(above >= 0, above.clamp(min=0) ** power, 0.0)
    return density


def _terms(weights: Sequence[float]) -> list[float]:
    """The magnitudes of the nonzero weights, if the alternating sum over them is accurate."""
    terms = [abs(w) for w in weights if w != 0]
    if len(terms) > MAX_TERMS:
        raise FairbanditError(
            f"the exact CDF takes at most {MAX_TERMS} nonzero weights a group, got {len(terms)}; "
            "use the sampled CDF"
        )
    if terms and abs(len(terms) * math.log(math.fsum(terms))) > RANGE:
        raise FairbanditError(
            f"the exact CDF of weights {terms} leaves the range of double precision, being a "
            f"polynomial of degree {len(terms)}; choose weights nearer to 1, or use the sampled CDF"
        )
    # log of eps·total^m/(m! ∏w), in logs since tiny weights underflow
    loss = sum(math.log(math.fsum(terms) / w) for w in terms) - math.lgamma(len(terms) + 1)
    if loss > math.log(ACCURACY / torch.finfo(torch.float64).eps):
        raise FairbanditError(
            f"the exact CDF of weights {terms} would lose too many digits, so uneven are they; "
            "drop the smallest, or use the sampled CDF"
        )
    return terms
