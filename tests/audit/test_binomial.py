"""Intervals of rates and ratios against exact probabilities of all outcomes."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, norm

from fairbandit.audit.rates import ratio_ends
from fairbandit.runs.intervals import mean_band


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("p", [0.004, 0.25, 0.5, 0.97])
@pytest.mark.parametrize("level", [0.2, 0.01])
def test_the_band_covers_as_promised(n, p, level):
    """Exact coverage, of n events of probability p, and of n whose mean probability is p."""
    low, high = mean_band(np.arange(n + 1), n, 1 - level)
    missed, k = (p < low) | (p > high), n // 2
    for apart in (0, min(p, 1 - p)):
        chances = np.ones(1)
        for count, chance in ((k, p - apart), (k, p + apart), (n - 2 * k, p)):
            chances = np.convolve(chances, binom.pmf(np.arange(count + 1), count, chance))
        assert chances[missed].sum() <= level


@pytest.mark.parametrize("sizes", [(30, 30), (60, 20), (20, 60)])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_the_interval_of_a_ratio_covers_about_as_promised(sizes, confidence):
    """Exact coverage: an approximate interval may miss one point more often than promised.

    For frequent events it may not cover much more often, either.
    """
    n, m = sizes
    counts = [*product(range(n + 1), range(m + 1))]
    low, high = np.array([ratio_ends((k, n), (j, m), confidence) for k, j in counts]).T
    for p, q in [(0.03, 0.1), (0.1, 0.3), (0.24, 0.3), (0.3, 0.3), (0.5, 0.6), (0.9, 0.8)]:
        chances = np.outer(binom.pmf(range(n + 1), n, p), binom.pmf(range(m + 1), m, q)).ravel()
        coverage = chances[(low <= p / q) & (p / q <= high)].sum()
        assert coverage > confidence - 0.01
        if 0.2 < p < 0.7:
            assert coverage < confidence + 0.01


def test_the_ends_of_a_ratio_are_where_a_difference_is_0():
    """MOVER-R as defined: the interval of p − θ·q, by Wilson's intervals, begins or ends at 0."""
    z = norm.isf(0.025)
    ones, others = [(0, 9), (3, 30), (38, 421), (7, 7)], [(1, 50), (145, 508), (4, 4)]
    for (k, n), (j, m) in product(ones, others):
        p, q = k / n, j / m
        spans = []
        for share, trials in ((p, n), (q, m)):
            # Wilson's ends are the chances c with (share − c)² = z²·c(1 − c)/trials
            a, b = 1 + z**2 / trials, 2 * share + z**2 / trials
            spans.append(np.sort(np.roots([a, -b, share**2]).real))
        (low, high), (least, most) = spans
        start, end = ratio_ends((k, n), (j, m), 0.95)
        assert start <= p / q < end
        for ratio, one, other, sign in ((start, low, most, 1), (end, high, least, -1)):
            away = math.hypot(one - p, ratio * (other - q))
            assert p - ratio * q == pytest.approx(sign * away, abs=1e-9)
