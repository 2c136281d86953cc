"""Bands and tests against exact probabilities of all outcomes."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from fairbandit.audit import Picks, binomial_p, examine, mean_band


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("p", [0.004, 0.25, 0.5, 0.97])
@pytest.mark.parametrize("level", [0.2, 0.01])
def test_the_band_covers_as_promised(n, p, level):
    """Exact coverage, of n events of probability p, and of n whose mean probability is p."""
    low, high = mean_band(np.arange(n + 1), n, level)
    missed, k = (p < low) | (p > high), n // 2
    for apart in (0, min(p, 1 - p)):
        chances = np.ones(1)
        for count, chance in ((k, p - apart), (k, p + apart), (n - 2 * k, p)):
            chances = np.convolve(chances, binom.pmf(np.arange(count + 1), count, chance))
        assert chances[missed].sum() <= level


POOLS = [[3, 1, 0], [0, 3, 1], [1, 2, 1], [2, 2, 0]]
"""How many candidates each of three groups has in four pools of four."""


@pytest.mark.parametrize("pools", [[[1, 1, 2]], [[1, 1, 2]] * 5, POOLS * 6, [[3, 0, 1]] * 16])
def test_p_values_hold_for_any_number_of_decisions(pools):
    """P(p ≤ u) ≤ u for every u, by all joint counts of decisions, alike or not, by convolution."""
    joint = np.ones((1, 1))  # by the counts of the first two groups
    for one, two, rest in np.array(pools) / 4:
        joint = np.pad(joint, (0, 1))
        joint = one * np.roll(joint, 1, 0) + two * np.roll(joint, 1, 1) + rest * joint
    counts = np.argwhere(joint > 0)
    counts = np.column_stack([counts, len(pools) - counts.sum(1)])
    p, place = np.unique(binomial_p(counts, np.sum(pools, 0) / 4), return_inverse=True)
    at_most = np.bincount(place, joint[joint > 0]).cumsum()
    assert (at_most <= p + 1e-12).all()


def balanced(counts) -> Picks:
    """A run whose rounds had these counts, (T, K), a place for each group."""
    names = tuple(map(str, range(counts.shape[1])))
    received = np.full(len(names), float(counts.sum()))
    return Picks("run", "simulation", names, counts, received, own_places=True, reads_past=True)


@pytest.mark.parametrize("replicas", [12, 20])
def test_the_level_of_a_run_is_exact(replicas):
    """Four groups: the probability that a run with parity is rejected, from all counts of a round.

    Holm's method rejects in any of T rounds if the smallest p-value is at most level/T.
    """
    level = 1e-3
    counts = np.array([c for c in product(range(replicas + 1), repeat=4) if sum(c) == replicas])
    chances = multinomial.pmf(counts, replicas, [0.25] * 4)
    result = examine(balanced(counts), level)
    p = result["p_value"].to_numpy()[::4]
    for rounds in (1, 20):
        size = -math.expm1(rounds * math.log1p(-chances[p <= level / rounds].sum()))
        assert 0.1 * level < size <= level
    # A round's own p-value is below level/T where the band of T rounds misses 1/K, and only there.
    missed = ((result["low"] > 0.25) | (result["high"] < 0.25)).to_numpy().reshape(-1, 4).any(1)
    assert (missed == (p * len(counts) < level)).all()
    assert missed.any()


@pytest.mark.parametrize(("replicas", "tested"), [(8, False), (9, True)])
def test_a_run_is_tested_where_some_counts_would_be_rejected(replicas, tested):
    """Four groups, twenty rounds: with all picks in one group p = 8·4⁻ᴮ, 20 of which is 1e-3."""
    result = examine(balanced(np.array([[replicas, 0, 0, 0]] * 20)), level=1e-3)
    verdict = "parity rejected" if tested else "not tested: too few replicas"
    assert (result["verdict"] == verdict).all()
    expected = 8 * 0.25**replicas if tested else np.nan
    assert result["p_value"].to_numpy() == pytest.approx(expected, nan_ok=True)
