"""Confidence intervals and tests for counts, valid for any sample size, and Holm's method."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def mean_band(hits: ArrayLike, trials: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Returns Clopper and Pearson's intervals for the mean probabilities of independent events.

    The lower end is the p with P(X ≥ hits) = level/2, X ~ Bin(n, p), and the upper end the p with
    P(X ≤ hits) = level/2. Each end is at least 1/n away from hits/n, so that by the inequality
    that `binomial_p` uses the events may have different probabilities, whose mean is covered.

    Args:
        hits: how many events happened, any shape.
        trials: n, of that shape or one for all, at least 1.
        level: the largest probability of a miss, of each interval alone; divide it by the number
            of intervals for a simultaneous band (Bonferroni).

    Returns:
        The lower and the upper ends, of the shape of `hits`.

    >>> low, high = mean_band([25], 100, level=0.05)
    >>> [round(float(end[0]), 3) for end in (low, high)]
    [0.169, 0.347]
    """
    from scipy.stats import beta

    k, n = np.asarray(hits), np.asarray(trials)
    low = np.minimum(beta.ppf(level / 2, k, n - k + 1), (k - 1) / n)
    high = np.maximum(beta.isf(level / 2, k + 1, n - k), (k + 1) / n)
    return np.where(k > 0, low, 0.0), np.where(k < n, high, 1.0)


def binomial_p(counts: ArrayLike, expected: ArrayLike) -> Floats:
    """Returns p-values of counts that add up to n decisions, by binomial tails; valid for any n.

    p = min(1, c·2·min_i P(X_i is at least as far out as count_i)), X_i ~ Bin(n, expected_i/n) and
    "out" meaning above where the count is above its expectation, below where it is below. The 2
    is for the two sides and c is Bonferroni's correction over categories: k of them, or 1 where
    k = 2, since the second count follows from the first.

    P(p ≤ u) ≤ u for every u and n where all decisions have the same probabilities, and also where
    they are independent with different probabilities of these means: binomial tails bound those
    of such sums from one beyond the mean on (Hoeffding, "On the distribution of the number of
    successes in independent trials", Annals of Mathematical Statistics 1956, Theorem 4). Nearer
    counts have a tail of 1.

    Args:
        counts: (…, k).
        expected: mean counts of the same sum, (…, k).

    Returns:
        One p-value for each row, (…).

    >>> binomial_p([[10, 0], [6, 4]], [5.0, 5.0]).round(4).tolist()  # twice 1/1024 and 386/1024
    [0.002, 0.7539]
    """
    from scipy.stats import binom

    count, mean = np.broadcast_arrays(counts, np.asarray(expected, np.float64))
    k, n = count.shape[-1], count.sum(-1, keepdims=True)
    above, below = binom.sf(count - 1, n, mean / n), binom.cdf(count, n, mean / n)
    tails = np.where(np.abs(count - mean) < 1, 1.0, np.where(count > mean, above, below))
    corrected: Floats = 2 * (k if k > 2 else 1) * tails.min(-1)
    return corrected.clip(max=1)


def holm(p: ArrayLike) -> Floats:
    """Adjusts p-values for many tests, which may depend on each other in any way.

    The i-th smallest of m becomes max_{j ≤ i} min(1, (m − j + 1)·p_(j)). To reject where the
    adjusted p is at most a level rejects any true hypothesis with at most that probability (Holm,
    "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 1979).

    Args:
        p: (m,).

    Returns:
        The adjusted p-values, (m,), in the order given.

    >>> holm([0.5, 0.01, 0.02]).tolist()
    [0.5, 0.03, 0.04]
    """
    values = np.asarray(p, np.float64)
    order = values.argsort()
    stepped = np.maximum.accumulate(np.arange(len(values), 0, -1) * values[order]).clip(max=1)
    return stepped[order.argsort()]
