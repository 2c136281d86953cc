"""Density and CDF of a group's true rewards on a grid, for figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

POINTS = 201

_TAIL = 1e-3  # a grid covers all but these shares of a distribution
_BINS = 2048


@dataclass(frozen=True)
class Distribution:
    """The density and the CDF, (n,), at ascending rewards, `values`, (n,) float64."""

    values: Tensor
    density: Tensor
    cdf: Tensor


def of_cdf(cdf: Callable[[Tensor], Tensor]) -> Distribution:
    """The distribution of a smooth CDF, from rewards (n,) to shares (n,); by finite differences.

    >>> of_cdf(lambda v: v.clamp(0, 1)).density[:3]
    tensor([1., 1., 1.], dtype=torch.float64)
    """
    tails = torch.tensor([_TAIL, 1 - _TAIL], dtype=torch.float64)
    low, high = torch.full_like(tails, -1e12), torch.full_like(tails, 1e12)
    for _ in range(100):  # bisection of both quantiles
        middle = (low + high) / 2
        below = cdf(middle) < tails
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    values = _grid(*high.tolist())
    shares = cdf(values)
    (density,) = torch.gradient(shares, spacing=(values,))
    return Distribution(values, density.clamp(min=0), shares)


def of_sample(ordered: Tensor) -> Distribution:
    """The ECDF of a sample in ascending order, and a Gaussian kernel estimate of its density.

    The bandwidth is Silverman's rule, h = 0.9·min(σ, IQR/1.34)·n^(−1/5); σ alone if the IQR is 0.

    Reference:
        Silverman, "Density Estimation for Statistics and Data Analysis", 1986, eq. 3.31.
    """
    count = len(ordered)
    shares = (_TAIL, 0.25, 0.75, 1 - _TAIL)
    low, first, third, high = (float(ordered[round(share * (count - 1))]) for share in shares)
    spread, between = float(ordered.std(correction=0)), (third - first) / 1.34
    rule = 0.9 * (min(spread, between) if between > 0 else spread) * count**-0.2
    band = max(rule, (high - low) / POINTS, 1e-9 * max(1.0, abs(low)))
    values = _grid(low - 3 * band, high + 3 * band)
    start, stop = float(values[0]) - 4 * band, float(values[-1]) + 4 * band
    weights = torch.histc(ordered, bins=_BINS, min=start, max=stop)
    width = (stop - start) / _BINS
    centres = start + width * (torch.arange(_BINS, dtype=torch.float64) + 0.5)
    kernels = torch.exp(-(((values[:, None] - centres) / band) ** 2) / 2)
    density = kernels @ weights / (count * band * math.sqrt(2 * math.pi))
    below = torch.searchsorted(ordered, values, right=True)
    return Distribution(values, density, below.double() / count)


def _grid(low: float, high: float) -> Tensor:
    if not high - low > 1e-9 * max(1.0, abs(low)):  # all rewards are one
        low, high = low - 0.5, high + 0.5
    return torch.linspace(low, high, POINTS, dtype=torch.float64)
