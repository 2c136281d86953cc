"""Bands and tests against exact probabilities of all outcomes."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, multinomial, norm

from fairbandit.audit import examine_counts, mean_band
from fairbandit.audit.rates import ratio_ends


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


POOLS = [[3, 1, 0], [0, 3, 1], [1, 2, 1], [2, 2, 0]]
"""How many candidates each of three groups has in four pools of four."""


@pytest.mark.parametrize("pools", [[[1, 1, 2]], [[1, 1, 2]] * 5, POOLS * 6, [[3, 0, 1]] * 16])
@pytest.mark.parametrize("level", [0.2, 0.01])
def test_the_level_holds_for_any_number_of_decisions(pools, level):
    """P(rejected) ≤ level by all joint counts of decisions, alike or not, by convolution."""
    joint = np.ones((1, 1))  # by the counts of the first two groups
    for one, two, rest in np.array(pools) / 4:
        joint = np.pad(joint, (0, 1))
        joint = one * np.roll(joint, 1, 0) + two * np.roll(joint, 1, 1) + rest * joint
    counts = np.argwhere(joint > 0)
    counts = np.column_stack([counts, len(pools) - counts.sum(1)])
    received, rejected = np.sum(pools, 0).astype(float), []
    for one in counts:
        found = examine_counts(
            one[None], received, "abc", own_places=False, reads_past=False, confidence=1 - level
        )
        rejected.append(found["verdict"][0] == "parity rejected")
    assert joint[joint > 0][rejected].sum() <= level


def verdicts(counts: NDArray[np.int64], level: float) -> set[str]:
    """Of a run whose rounds had these counts, (T, K), a place for each group."""
    received, names = np.full(counts.shape[1], float(counts.sum())), "abcd"
    found = examine_counts(
        counts, received, names, own_places=True, reads_past=True, confidence=1 - level
    )
    return set(found["verdict"])


@pytest.mark.parametrize("replicas", [12, 20])
def test_the_level_of_a_run_is_exact(replicas):
    """Four groups: the probability that a run with parity is rejected, from all counts of a round.

    A run of T rounds is rejected where a band at level/T of a single round misses 1/K.
    """
    level = 1e-3
    counts = np.array([c for c in product(range(replicas + 1), repeat=4) if sum(c) == replicas])
    chances = multinomial.pmf(counts, replicas, [0.25] * 4)
    for rounds in (1, 20):
        low, high = mean_band(counts, replicas, 1 - level / (4 * rounds))
        missed = ((low > 0.25) | (high < 0.25)).any(1)
        size = -math.expm1(rounds * math.log1p(-chances[missed].sum()))
        assert 0.1 * level < size <= level
        for one, verdict in ((counts[missed], "rejected"), (counts[~missed], "not rejected")):
            assert verdicts(one[:1].repeat(rounds, 0), level) == {f"parity {verdict}"}


@pytest.mark.parametrize(("replicas", "tested"), [(8, False), (9, True)])
def test_a_run_is_tested_where_some_counts_would_be_rejected(replicas, tested):
    """Four groups, twenty rounds: with all picks in one group p = 8·4⁻ᴮ, 20 of which is 1e-3."""
    few = f"not tested: too few replicas ({replicas} of the 9 needed)"
    verdict = "parity rejected" if tested else few
    assert verdicts(np.array([[replicas, 0, 0, 0]] * 20), 1e-3) == {verdict}


def test_the_replicas_that_mixed_pools_need():
    """Two groups with 1 and 3 of 4 places in 2 rounds: p = 2·4⁻²ᴮ, of which 2 are at most 1e-3."""
    for replicas, verdict in (
        (2, "not tested: too few replicas (2 of the 3 needed)"),
        (3, "parity rejected"),
    ):
        picks, received = np.array([[replicas, 0]] * 2), replicas * np.array([2.0, 6.0])
        found = examine_counts(picks, received, "ab", own_places=False, reads_past=False)
        assert set(found["verdict"]) == {verdict}


def test_of_shortlists_a_group_is_picked_by_each_replica_at_most_once():
    """Two of four groups: for a group, a binomial of as many trials as there are replicas."""
    replicas, level, counts = 40, 1e-3, np.arange(41)
    low, high = mean_band(counts, replicas, 1 - level / 4)
    chances, missed = binom.pmf(counts, replicas, 0.5), (low > 0.5) | (high < 0.5)
    assert 0.01 * level < 4 * chances[missed].sum() <= level
    for count in (int(counts[missed].max()), int(counts[~missed].max())):
        one = np.array([[count, 80 - 40 - count, 20, 20]])
        options: Any = {"own_places": True, "reads_past": True, "picks": 2, "confidence": 1 - level}
        result = examine_counts(one, np.full(4, 40.0), "abcd", **options)
        assert (result["target"] == 0.5).all()
        assert result["rate"].tolist() == (one[0] / 40).tolist()
        assert ((result["low"] >= 0) & (result["high"] <= 1)).all()
        rejected = bool(missed[one[0]].any())
        assert (result["verdict"] == f"parity {'' if rejected else 'not '}rejected").all()
