"""Counts, means and standard deviations of samples and merged samples (Chan et al., 1979)."""

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
    return merged_moments(~np.isnan(array), array, 0.0)


def merged_moments(
    count: ArrayLike, mean: ArrayLike, std: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Merges samples, given their counts, means and standard deviations.

    n = Σ nᵢ, mean = Σ nᵢmᵢ/n, (n − 1)·std² = Σ (nᵢ − 1)·sᵢ² + Σ nᵢ(mᵢ − mean)² (Chan, Golub,
    LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979).

    Args:
        count: nᵢ, one row for each sample.
        mean: mᵢ, in the same shape; ignored where nᵢ = 0.
        std: sᵢ, in the same shape; ignored where nᵢ < 2.

    Returns:
        The count, mean and standard deviation of all samples together, as `moments` returns them.

    >>> of_1_2_and_6 = [2, 1], [1.5, 6.0], [0.5**0.5, float("nan")]
    >>> count, mean, std = merged_moments(*of_1_2_and_6)
    >>> int(count), float(mean), round(float(std), 4)
    (3, 3.0, 2.6458)
    """
    counts = np.asarray(count, np.float64)
    means = np.where(counts > 0, np.asarray(mean, np.float64), 0.0)
    stds = np.where(counts > 1, np.asarray(std, np.float64), 0.0)
    total = counts.sum(0)
    centre = (counts * means).sum(0) / np.maximum(total, 1)
    squares = (counts - 1).clip(0) * stds**2 + counts * (means - centre) ** 2
    merged = np.sqrt(squares.sum(0) / np.maximum(total - 1, 1))
    return total, np.where(total > 0, centre, np.nan), np.where(total > 1, merged, np.nan)


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
