"""Computes R, the smallest subgaussian constant of a sample of noise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_GRID = 200
_CHUNK = 1 << 22  # exponentials at once


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
        around = torch.linspace(
            float(grid[max(0, at - 1)]),
            float(grid[min(_GRID - 1, at + 1)]),
            _GRID,
            dtype=values.dtype,
        )
        best = max(best, float(proxies.max()), float(_proxies(sign * centred, around).max()))
    return math.sqrt(best)


def _proxies(centred: Tensor, slopes: Tensor) -> Tensor:
    """2·log E[exp(s·η)]/s² at each s."""
    step = max(1, _CHUNK // len(centred))
    sums = [(some[:, None] * centred).logsumexp(1) for some in slopes.split(step)]
    return 2 * (torch.cat(sums) - math.log(len(centred))) / slopes**2
