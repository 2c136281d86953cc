"""Means and deviations of columns, and numbers that are restored from standardised features."""

from __future__ import annotations

from math import floor, log10

import numpy as np
from numpy.typing import NDArray

GAP = -0.0
"""The feature of a missing cell: the mean of the table, with a sign by which it is recognised. The
feature of a cell that equals the mean is 0.0."""


def scales(block: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Returns means and deviations of features (n, width); a constant feature has deviation 1."""
    low = np.nanmin(block, axis=0)
    constant = low == np.nanmax(block, axis=0)
    means = np.where(constant, low, np.nanmean(block, axis=0))
    return means.tolist(), np.where(constant, 1.0, np.nanstd(block, axis=0)).tolist()


def is_gap(features: NDArray[np.float64]) -> bool:
    """Whether the features of a column, (width,), are of a missing cell."""
    return not features.any() and bool(np.signbit(features).all())


def rounded(value: float, mean: float) -> float:
    """Rounds a restored number to twelve digits of the larger of the number and the mean.

    Standardisation loses about four of the sixteen digits.

    >>> rounded(-2.8e-17, 0.45), rounded(29.999999999999996, 49.955)
    (0.0, 30.0)
    """
    size = max(abs(value), abs(mean))
    return round(value, 11 - floor(log10(size))) + 0.0 if size else 0.0
