"""Confidence intervals of means of independent units, such as decisions or replicas.

Let v be the estimate of a mean from n units, with an estimated variance of f degrees of freedom.
Student's interval is v ± t·√variance. It rests on the observed values alone: if nothing varied,
its width is 0, and if large values are rare, it is too short on their side. So two intervals for
values between `least` and `most` are joined with it:

* Clopper and Pearson's interval for as many independent events as would have the same variance,
  which is Korn and Graubard's. It is longer on the side of the rarer values.
* The interval of an unseen event. All n units miss an event with a probability of at least α/2 only
  if its probability is at most q = 1 − (α/2)^(1/n). If v is right except for such an event, the
  mean lies between v − q(v − least) and v + q(most − v). If all or none of n events happened, this
  is Clopper and Pearson's interval. If least and most are unknown, it is infinite.

The mean of a share cannot leave its range, so Student's interval is not needed there.

References: Clopper and Pearson, Biometrika 1934; Korn and Graubard, "Confidence intervals for
proportions with small expected number of positive counts", Survey Methodology 1998.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Span = tuple[float, float]

CONFIDENCE = 0.95
UNBOUNDED: Span = (-math.inf, math.inf)
SHARE: Span = (0.0, 1.0)
"""The least and the greatest value of a share, a rate or a rank."""


def mean_band(hits: ArrayLike, trials: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Returns Clopper and Pearson's intervals for the mean probabilities of independent events.

    With α = 1 − confidence, the lower end is the p with P(X ≥ hits) = α/2, X ~ Bin(n, p), and the
    upper end the p with P(X ≤ hits) = α/2. The events may have different probabilities; the
    interval then covers their mean. Binomial tails bound the tails of such sums beyond a distance
    of 1 from the mean, and each end is at least 1/n away from hits/n (Hoeffding, "On the
    distribution of the number of successes in independent trials", Annals of Mathematical
    Statistics 1956, Theorem 4).

    >>> low, high = mean_band([25], 100, confidence=0.95)
    >>> [round(float(end[0]), 3) for end in (low, high)]
    [0.169, 0.347]
    """
    from scipy.stats import beta

    k, n, error = np.asarray(hits), np.asarray(trials), 1 - confidence
    low = np.minimum(beta.ppf(error / 2, k, n - k + 1), (k - 1) / n)
    high = np.maximum(beta.isf(error / 2, k + 1, n - k), (k + 1) / n)
    return np.where(k > 0, low, 0.0), np.where(k < n, high, 1.0)


def mean_ends(
    value: float,
    variance: float,
    freedom: float,
    n: float,
    span: Span,
    confidence: float,
    *,
    within: bool = False,
) -> Span:
    """Returns the union of all three intervals for n values in a span; `within` cuts it there.

    >>> [round(end, 3) for end in mean_ends(0.0, 0.0, 17, 18, (0, 1), 0.95)]
    [0.0, 0.185]
    """
    half = _quantile(freedom, confidence) * math.sqrt(variance) if freedom > 1e-9 else math.inf
    low, high = _unseen(value, n, span, confidence)
    low, high = min(value - half, low), max(value + half, high)
    if variance > 0 and span[0] < value < span[1] and math.isfinite(low):
        down, up = _events(value, variance, freedom, n, span, confidence, least=n)
        low, high = min(low, down), max(high, up)
    return (max(low, span[0]), min(high, span[1])) if within else (low, high)


def share_ends(
    value: float, variance: float, freedom: float, n: float, span: Span, confidence: float
) -> Span:
    """Returns the union of the last two intervals for a mean in its span, such as a rate.

    >>> [round(end, 3) for end in share_ends(0.04, 0.04 * 0.96 / 50, 49, 50, (0, 1), 0.95)]
    [0.005, 0.141]
    >>> [round(end, 3) for end in share_ends(1.0, 0.0, 2, 3, (0, 1), 0.95)]
    [0.292, 1.0]
    """
    if freedom <= 1e-9:
        return span
    low, high = _unseen(value, n, span, confidence)
    if variance > 0:
        down, up = _events(value, variance, freedom, n, span, confidence, least=1e-9)
        low, high = min(low, down), max(high, up)
    return low, high


def _events(
    value: float,
    variance: float,
    freedom: float,
    n: float,
    span: Span,
    confidence: float,
    least: float,
) -> Span:
    """The interval for as many events, at least `least`, as have the variance (t/z)²·variance."""
    width = span[1] - span[0]
    share = min(max((value - span[0]) / width, 0.0), 1.0)
    wider = _quantile(freedom, confidence) / _quantile(math.inf, confidence)
    trials = share * (1 - share) / variance * (width / wider) ** 2
    trials = min(max(trials, least), n * n)  # with more, the unseen event has the longer interval
    bounds = mean_band(share * trials, trials, confidence)
    low, high = (span[0] + width * min(max(float(end), 0.0), 1.0) for end in bounds)
    return low, high


def _unseen(value: float, n: float, span: Span, confidence: float) -> Span:
    q = -math.expm1(math.log((1 - confidence) / 2) / n) if n > 0 else 1.0
    return value - q * max(value - span[0], 0.0), value + q * max(span[1] - value, 0.0)


def _quantile(freedom: float, confidence: float) -> float:
    from scipy.special import ndtri, stdtrit

    upper = (1 + confidence) / 2
    return float(stdtrit(freedom, upper) if math.isfinite(freedom) else ndtri(upper))


def moments(values: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Returns count, mean and standard deviation (ddof 1) over the first dimension, without NaN.

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

    It is NaN for fewer than two values, and for values that are equal up to rounding, which do not
    show how far others would be off.
    """
    from scipy.special import stdtrit

    counts, centre, spread = (np.asarray(part, np.float64) for part in (count, mean, std))
    quantile = stdtrit(counts - 1, (1 + CONFIDENCE) / 2)  # NaN for fewer than two values
    half = quantile * spread / np.sqrt(np.maximum(counts, 1))
    half = np.where(spread > 1e-12 * np.abs(centre), half, np.nan)
    return centre - half, centre + half
