"""M: the greatest value of a reward density, where only values drawn from it are known."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.theory.estimate import Estimate

CELLS = 1 << 16
"""The most cells that values are binned into."""

_CELLS_PER_BANDWIDTH = 10
_REACH = 6  # bandwidths beyond the values, where the kernel has died out


def bandwidth(values: Tensor) -> float:
    """Silverman's rule, h = 0.9·min(σ, IQR/1.34)·n^(−1/5); σ alone where the IQR is 0.

    >>> round(bandwidth(torch.arange(32).double()), 3)
    4.221
    """
    spread = float(values.std())
    low, high = torch.quantile(
        values[:: max(1, len(values) // 10**6)], values.new_tensor([0.25, 0.75])
    )
    between = float(high - low) / 1.34
    return 0.9 * (min(spread, between) if between > 0 else spread) * len(values) ** -0.2


def greatest_density(values: Tensor, *, draws: int = 200, seed: int = 0) -> Estimate:
    """The maximum of a Gaussian kernel density estimate, with a bootstrapped standard error.

    f(z) = 1/(n·h) Σᵢ φ((z − zᵢ)/h), h by `bandwidth`. The error is the standard deviation of the
    maximum over resampled values. It does not cover the bias of smoothing, which lowers a peak
    narrower than h; and the law of finitely many values has no density at all.

    Args:
        values: at least two, (n,) float64.
        draws: how often the values are resampled.
        seed: of the resampling.

    Returns:
        M with its interval; infinite where all values are equal.

    Raises:
        FairbanditError: fewer than two values.
    """
    if len(values) < 2:
        raise FairbanditError(f"a density takes at least two values, got {len(values)}")
    h = bandwidth(values)
    span = float(values.max() - values.min())
    if h <= 0 or not math.isfinite(h) or h < 1e-12 * span:
        return Estimate.exactly(math.inf, "all values are equal")
    width = max(h / _CELLS_PER_BANDWIDTH, (span + 2 * _REACH * h) / CELLS)
    start = float(values.min()) - _REACH * h
    cells = math.ceil((span + 2 * _REACH * h) / width) + 1
    binned = torch.bincount(((values - start) / width).round().long(), minlength=cells).double()
    n = len(values)
    value = float(_maxima(binned[None] / n, width, h)[0])
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    occupied = binned.nonzero()[:, 0]
    shares = (binned[occupied] / n).numpy()
    maxima = []
    for _ in range(draws):
        again = torch.zeros_like(binned)
        drawn = generator.multinomial(n, shares / shares.sum())
        again[occupied] = torch.from_numpy(drawn).double()
        maxima.append(float(_maxima(again[None] / n, width, h)[0]))
    error = float(np.std(maxima, ddof=1))
    return Estimate.within(value, error, f"kernel density, bandwidth {h:.3g}, {n:,} values")


def _maxima(shares: Tensor, width: float, h: float) -> Tensor:
    """The greatest value of the smoothed shares, (draws, cells) → (draws,)."""
    cells = shares.shape[1]
    size = 1 << (2 * cells - 1).bit_length()
    distance = torch.arange(cells, dtype=shares.dtype) * width / h
    half = torch.exp(-(distance**2) / 2) / (h * math.sqrt(2 * math.pi))
    kernel = shares.new_zeros(size)
    kernel[:cells] = half
    kernel[size - cells + 1 :] = half[1:].flip(0)
    smooth = torch.fft.irfft(torch.fft.rfft(shares, n=size) * torch.fft.rfft(kernel), n=size)
    return smooth[:, :cells].amax(1)
