"""Computes λ⁺_min(Σ), M and R from a factor of Σ or from samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fairbandit.environments.distribution import bandwidth
from fairbandit.errors import FairbanditError
from fairbandit.theory.constants import Estimate

CHUNK = 1 << 15
"""The number of rows that are factored at once."""

CELLS = 1 << 16
"""The largest number of bins of a density."""

DRAWS = 200
"""How often values are resampled for the standard error of a density's maximum."""

_CELLS_PER_BANDWIDTH = 40
_REACH = 6  # bandwidths beyond the values, where the kernel has died out
_GRID = 200  # slopes at which the subgaussian constant is tried
_EXPONENTIALS = 1 << 22  # at once


def smallest_square(factor: Tensor, rows: int | None = None) -> tuple[float, Tensor]:
    """The smallest eigenvalue of Σ = AᵀA that is not zero but for rounding, with its eigenvector.

    Singular values of A are squared; the product, which would square the condition number, is
    never formed, so that zero and small stay apart.

    Args:
        factor: A, (n, d) float64.
        rows: how many rows A was reduced from; by default n.

    Returns:
        λ⁺_min(Σ), the square of the smallest singular value above max(rows, d)·eps times the
        largest, and a unit vector v with Σv = λ⁺_min·v, (d,).

    >>> value, _ = smallest_square(torch.diag(torch.tensor([0.0, 2.0, 3.0]).double()))
    >>> round(value, 12)
    4.0
    """
    _, singular, vectors = torch.linalg.svd(factor, full_matrices=False)
    size = max(len(factor) if rows is None else rows, factor.shape[1])
    least = size * torch.finfo(singular.dtype).eps * singular[0]
    last = int((singular > least).sum()) - 1
    return float(singular[last]) ** 2, vectors[last]


def smallest_direction(groups: Sequence[Tensor]) -> tuple[float, Tensor]:
    """λ⁺_min of Σ = G⁻¹ Σ_i n_i⁻¹ Σ_{x ∈ group i} x xᵀ, with its eigenvector.

    The factor of Σ is the stacked rows x/√(G·n_i), reduced by QR; see `smallest_square`.

    Args:
        groups: the contexts of each group, (n_i, d) float64.
    """
    d = groups[0].shape[1]
    factor = groups[0].new_zeros(0, d)
    for rows in groups:
        scale = math.sqrt(len(groups) * len(rows))
        for chunk in rows.split(CHUNK):
            factor = torch.linalg.qr(torch.cat([factor, chunk / scale]), mode="r").R
    return smallest_square(factor, rows=sum(len(rows) for rows in groups))


def greatest_density(values: Tensor) -> Estimate:
    """The maximum of a Gaussian kernel density estimate, with a bootstrapped standard error.

    f(z) = 1/(n·h) Σᵢ φ((z − zᵢ)/h), h by `bandwidth`. The error is the standard deviation of the
    maximum over resampled values. It does not cover the bias of smoothing, which lowers a peak
    narrower than h; and the law of finitely many values has no density at all.

    Args:
        values: at least two, (n,) float64.

    Returns:
        M with its interval; infinite where all values are equal.

    Raises:
        FairbanditError: fewer than two values.
    """
    if len(values) < 2:
        raise FairbanditError(f"a density takes at least two values, got {len(values)}")
    h = bandwidth(values)
    if not 1e-12 * float(values.max() - values.min()) < h < math.inf:
        return Estimate.exactly(math.inf, "all values are equal")
    # across a wider gap the kernels do not meet: shortened, outliers cost no cells
    gaps = values.sort().values.diff().clamp(max=2 * _REACH * h)
    packed = torch.cat([gaps.new_zeros(1), gaps.cumsum(0)]) + _REACH * h
    end = float(packed[-1]) + _REACH * h
    width = max(h / _CELLS_PER_BANDWIDTH, end / CELLS)
    cells = math.ceil(end / width) + 1
    binned = torch.bincount((packed / width).round().long(), minlength=cells).double()
    n = len(values)
    kernel = _kernel(cells, width, h)
    value = _maximum(binned / n, kernel)
    generator = np.random.default_rng(0)
    occupied = binned.nonzero()[:, 0]
    shares = (binned[occupied] / n).numpy()
    maxima = []
    for _ in range(DRAWS):
        again = torch.zeros_like(binned)
        drawn = generator.multinomial(n, shares / shares.sum())
        again[occupied] = torch.from_numpy(drawn).double()
        maxima.append(_maximum(again / n, kernel))
    error = float(np.std(maxima, ddof=1))
    return Estimate.within(value, error, f"kernel density, bandwidth {h:.3g}, {n:,} values")


def _kernel(cells: int, width: float, h: float) -> Tensor:
    """The Fourier transform of the Gaussian kernel on a circle of twice as many cells."""
    size = 1 << (2 * cells - 1).bit_length()
    place = torch.arange(size, dtype=torch.float64)
    distance = torch.minimum(place, size - place) * width / h
    return torch.fft.rfft(torch.exp(-(distance**2) / 2) / (h * math.sqrt(2 * math.pi)))


def _maximum(shares: Tensor, kernel: Tensor) -> float:
    """The greatest value of the smoothed shares, (cells,)."""
    size = 2 * (len(kernel) - 1)
    smooth = torch.fft.irfft(torch.fft.rfft(shares, n=size) * kernel, n=size)
    return float(smooth[: len(shares)].max())


def subgaussian(values: Tensor) -> float:
    """The smallest R with E[exp(s·η)] ≤ exp(s²R²/2) for all s, of the values' own law.

    R² = sup_s 2·log E[exp(s(η − Eη))]/s², found on a grid of s refined around its best point. It
    is at least the standard deviation, which it equals for normal noise, and at most half the
    range.

    Args:
        values: η, equally likely, (n,).

    Returns:
        R; 0 of values that are all equal.

    >>> round(subgaussian(torch.tensor([-1.0, 1.0]).double()), 4)  # Rademacher: R = 1
    1.0
    """
    centred = values - values.mean()
    largest, spread = float(centred.abs().max()), float(centred.std(correction=0))
    if spread <= 1e-14 * largest or largest == 0:
        return 0.0
    # beyond s = 2·log(n)/max|η| what is left is s·max|η| − log n, whose ratio to s² falls
    high = max(4 * math.log(len(values) + 1) / largest, 2 / spread)
    grid = torch.logspace(math.log10(1e-3 / spread), math.log10(high), _GRID, dtype=values.dtype)
    best = spread**2
    for sign in (1.0, -1.0):
        proxies = _proxies(sign * centred, grid)
        at = int(proxies.argmax())
        left, right = grid[[max(0, at - 1), min(_GRID - 1, at + 1)]].tolist()
        around = torch.linspace(left, right, _GRID, dtype=values.dtype)
        best = max(best, float(proxies.max()), float(_proxies(sign * centred, around).max()))
    return math.sqrt(best)


def _proxies(centred: Tensor, slopes: Tensor) -> Tensor:
    """2·log E[exp(s·η)]/s² at each s."""
    step = max(1, _EXPONENTIALS // len(centred))
    sums = [(some[:, None] * centred).logsumexp(1) for some in slopes.split(step)]
    return 2 * (torch.cat(sums) - math.log(len(centred))) / slopes**2
