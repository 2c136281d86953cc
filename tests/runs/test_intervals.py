"""Intervals of means: exact coverage, and what they add to Student's interval."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom, t

from fairbandit.runs.intervals import SHARE, UNBOUNDED, mean_ends, share_ends


@pytest.mark.parametrize("n", [1, 3, 18, 200])
@pytest.mark.parametrize("ends", [mean_ends, share_ends])
def test_none_or_all_of_n_events_have_the_interval_of_clopper_and_pearson(n, ends):
    upper = float(beta.isf(0.025, 1, n))
    assert ends(0.0, 0.0, n, n, SHARE, 0.95) == pytest.approx((0, upper))
    assert ends(1.0, 0.0, n, n, SHARE, 0.95) == pytest.approx((1 - upper, 1))
    # the same in other units
    low, high = ends(7.0, 0.0, n, n, (7.0, 9.0), 0.95)
    assert (low, high) == pytest.approx((7, 7 + 2 * upper))


@pytest.mark.parametrize("n", [6, 20, 60])
@pytest.mark.parametrize("p", [0.02, 0.1, 0.3, 0.5])
def test_rates_of_independent_events_are_covered(n, p):
    """Exactly, by all counts: the variance is estimated, and yet 95 % hold."""
    covered = 0.0
    for count in range(n + 1):
        rate = count / n
        low, high = share_ends(rate, rate * (1 - rate) / (n - 1), n - 1, n, SHARE, 0.95)
        covered += binom.pmf(count, n, p) * (low <= p <= high)
    assert covered >= 0.95


def test_an_interval_of_a_mean_holds_student_s_and_allows_for_rare_large_values():
    draw, seen = np.random.default_rng(0), 0
    for _ in range(200):
        rewards = np.where(draw.random(60) < 0.05, 10 * draw.random(60), 0)
        mean, variance = rewards.mean(), rewards.var(ddof=1) / 60
        span = rewards.min(), rewards.max()
        low, high = mean_ends(mean, variance, 59, 60, span, 0.95)
        half = t.ppf(0.975, 59) * math.sqrt(variance)
        assert low <= mean - half
        assert high >= mean + half
        seen += low <= 0.25 <= high
    assert seen > 170  # Student's interval alone holds the mean in 161


def test_without_a_range_nothing_is_known_of_values_that_were_not_seen():
    assert mean_ends(3.0, 0.0, 99, 100, UNBOUNDED, 0.95) == (-math.inf, math.inf)
    assert mean_ends(0.5, 0.1, 0, 1, SHARE, 0.95, within=True) == SHARE
    assert share_ends(0.5, 0.1, 0, 1, SHARE, 0.95) == SHARE


@pytest.mark.parametrize("variance", [1e-40, 1e-9, 0.2])
@pytest.mark.parametrize("n", [3, 1000, 10**7])
def test_no_interval_is_shorter_than_that_of_an_event_that_was_not_seen(variance, n):
    for ends in (mean_ends, share_ends):
        low, high = ends(0.25, variance, n, n, SHARE, 0.95)
        q = 1 - 0.025 ** (1 / n)
        assert low <= 0.25 * (1 - q) < 0.25 + 0.75 * q <= high + 1e-15
