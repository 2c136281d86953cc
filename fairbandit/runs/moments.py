"""Counts, means and standard deviations over replicas, and Student's interval of the mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
"""The confidence of `interval`."""


def moments(values: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Returns count, mean and standard deviation (ddof 1) over the first dimension, without NaN.

    The mean is NaN where all values are NaN, and the standard deviation where fewer than two values
    are not NaN.

    >>> count, mean, std = moments([[1.0], [2.0], [6.0], [float("nan")]])
    >>> int(count[0]), float(mean[0]), round(float(std[0]), 4)
    (3, 3.0, 2.6458)
    """
    array = np.asarray(values, np.float64)
    count = (~np.isnan(array)).sum(0).astype(np.float64)
    centre = np.nansum(array, 0) / np.maximum(count, 1)
    std = np.sqrt(np.nansum((array - centre) ** 2, 0) / np.maximum(count - 1, 1))
    return count, np.where(count > 0, centre, np.nan), np.where(count > 1, std, np.nan)


def interval(count: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Floats, Floats]:
    """Returns Student's confidence interval of the mean, at `CONFIDENCE`.

    The interval is mean ± q·std/√n, where q is the (1 + CONFIDENCE)/2 quantile of Student's t
    distribution with n − 1 degrees of freedom. It is exact for independent normal values; means
    over many rounds of independent replicas are nearly normal. It is NaN for fewer than two values,
    and for values that are equal up to rounding, which do not show how far others would be off.

    >>> low, high = interval(3, 3.0, 7.0**0.5)
    >>> round(float(low), 2), round(float(high), 2)
    (-3.57, 9.57)
    """
    from scipy.special import stdtrit

    counts, centre, spread = (np.asarray(part, np.float64) for part in (count, mean, std))
    quantile = stdtrit(counts - 1, (1 + CONFIDENCE) / 2)  # NaN for fewer than two values
    half = quantile * spread / np.sqrt(np.maximum(counts, 1))
    half = np.where(spread > 1e-12 * np.abs(centre), half, np.nan)
    return centre - half, centre + half
