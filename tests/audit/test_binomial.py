"""Bands and tests against closed forms, exact coverage and a reference by hand."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby, product
from operator import itemgetter

import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.audit import Picks, binomial_p, examine, holm, mean_band


def binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("p", [0.02, 0.25, 0.5, 0.97])
@pytest.mark.parametrize("level", [0.2, 0.01])
def test_the_band_covers_as_promised(n, p, level):
    """Exact coverage: the binomial probability of all counts whose interval holds p."""
    low, high = mean_band(torch.arange(n + 1), n, level)
    covered = [share for share, a, b in zip(binomial(n, p), low, high, strict=True) if a <= p <= b]
    assert math.fsum(covered) >= 1 - level


def test_the_band_covers_means_of_unequal_probabilities():
    """Twenty events of probability 0.05 and twenty of 0.45: their mean is covered too."""
    low, high = mean_band(torch.arange(41), 40, level=0.05)
    one, other = binomial(20, 0.05), binomial(20, 0.45)
    missed = math.fsum(
        one[i] * other[j]
        for i in range(21)
        for j in range(21)
        if not low[i + j] <= 0.25 <= high[i + j]
    )
    assert missed <= 0.05


def test_the_band_at_its_ends_is_known():
    """With no hit, (1 − p)^n ≥ level/2 gives p = 1 − (level/2)^{1/n}; and mirrored with n hits."""
    low, high = mean_band(torch.tensor([0, 50]), 50, level=0.02)
    edge = 1 - 0.01 ** (1 / 50)
    assert low.tolist() == pytest.approx([0.0, 1 - edge])
    assert high.tolist() == pytest.approx([edge, 1.0])


@pytest.mark.parametrize("n", [7, 300])
@pytest.mark.parametrize("chance", [Fraction(1, 10), Fraction(1, 3), Fraction(9, 10)])
def test_p_values_against_exact_tails(n, chance):
    """Two categories, all counts: twice the tail, in whole numbers; 1 within one of the mean."""
    terms = [math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n + 1)]
    counts = torch.tensor([[k, n - k] for k in range(n + 1)])
    expected = torch.tensor([float(n * chance), float(n * (1 - chance))], dtype=torch.float64)
    for k, p in enumerate(binomial_p(counts, expected).tolist()):
        tail = sum(terms[k:]) if k >= n * chance else sum(terms[: k + 1])
        near = abs(k - n * chance) < 1
        assert p == pytest.approx(1.0 if near else min(1.0, float(2 * tail)), rel=1e-11, abs=0)


def exceeded(p: Sequence[float], chances: Sequence[float]) -> float:
    """The greatest P(p ≤ u)/u over all u, from all outcomes and their exact probabilities."""
    share, worst = 0.0, 0.0
    for u, here in groupby(sorted(zip(p, chances, strict=True)), key=itemgetter(0)):
        share += math.fsum(chance for _, chance in here)
        worst = max(worst, share / u)
    return worst


@pytest.mark.parametrize("n", [1, 2, 5, 16])
@pytest.mark.parametrize("chances", [[0.5, 0.5], [0.25, 0.35, 0.4], [0.02, 0.1, 0.88]])
def test_p_values_hold_for_any_number_of_decisions(n, chances):
    """By all outcomes: P(p ≤ u) ≤ u for every u, with equality where two groups are alike."""
    k = len(chances)
    outcomes = [counts for counts in product(range(n + 1), repeat=k) if sum(counts) == n]
    exact = [
        math.factorial(n)
        * math.prod(c**x / math.factorial(x) for c, x in zip(chances, counts, strict=True))
        for counts in outcomes
    ]
    assert math.fsum(exact) == pytest.approx(1)
    expected = n * torch.tensor(chances, dtype=torch.float64)
    worst = exceeded(binomial_p(torch.tensor(outcomes), expected).tolist(), exact)
    assert worst <= 1 + 1e-12
    if k == 2:
        assert worst == pytest.approx(1)


@pytest.mark.parametrize("rare", [0, 1])
def test_p_values_hold_for_decisions_of_different_probabilities(rare):
    """Pools of four from three groups: all joint counts of 24 decisions, by convolution.

    Each pool's groups differ, so that counts are sums of Bernoulli variables of unequal means.
    """
    pools = [[3, 1, 0], [0, 3, 1], [1, 2, 1], [2 + rare, 2 - rare, 0]] * 6
    joint = {(0, 0): 1.0}
    for pool in pools:
        moved: dict[tuple[int, int], float] = {}
        for (one, two), chance in joint.items():
            steps = ((one + 1, two), (one, two + 1), (one, two))
            for at, members in zip(steps, pool, strict=True):
                moved[at] = moved.get(at, 0.0) + chance * members / 4
        joint = moved
    expected = torch.tensor(pools, dtype=torch.float64).sum(0) / 4
    counts = torch.tensor([[one, two, len(pools) - one - two] for one, two in joint])
    assert exceeded(binomial_p(counts, expected).tolist(), list(joint.values())) <= 1


def partitions(n: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """All ways to write n as a falling sum of so many numbers from 0 up to `most`."""
    if not parts:
        yield ()
        return
    for first in range(min(n, most), (n - 1) // parts, -1):
        for rest in partitions(n - first, parts - 1, first):
            yield (first, *rest)


def balanced(counts: Tensor) -> Picks:
    """A run whose rounds had these counts, (T, K), a place for each group."""
    rounds, groups = counts.shape
    replicas = int(counts[0].sum())
    return Picks(
        label="run",
        policy="fair_greedy",
        environment="simulation",
        groups=tuple(map(str, range(groups))),
        rounds=rounds,
        replicas=replicas,
        counts=counts,
        received=torch.full((groups,), float(rounds * replicas), dtype=torch.float64),
        rates=torch.full((groups, 2), 1 / groups, dtype=torch.float64),
        own_places=True,
        forgetful=False,
    )


def test_the_level_is_exact_at_five_expected_picks():
    """Ten groups, fifty replicas: the probability that a run with parity is rejected, exactly.

    Over all 62,740 counts up to their order, as rounds of one run, each with its multinomial
    probability. Rounds are independent here, and Holm's method rejects in any of T of them if
    the smallest p-value is at most level/T. Pearson's test with its asymptotic law would exceed
    the level 1.9 times with T = 20 and 6.8 times with T = 5,000.
    """
    level, groups, replicas = 1e-3, 10, 50
    counts = torch.tensor(list(partitions(replicas, groups, replicas)))
    one = torch.ones(counts.shape, dtype=torch.float64)
    alike = one.new_zeros(len(counts), replicas + 1).scatter_add(1, counts, one)
    orders = math.lgamma(groups + 1) - torch.lgamma(alike + 1).sum(1)
    ways = math.lgamma(replicas + 1) - torch.lgamma(counts.double() + 1).sum(1)
    chances = (orders + ways - replicas * math.log(groups)).exp()
    assert float(chances.sum()) == pytest.approx(1)
    p = examine(balanced(counts), level).p
    for rounds in (1, 20, 5000):
        each = float(chances[p <= level / rounds].sum())
        size = -math.expm1(rounds * math.log1p(-each))
        assert 0.1 * level < size <= level


@pytest.mark.parametrize(("replicas", "tested"), [(8, False), (9, True)])
def test_a_run_is_tested_where_some_counts_would_be_rejected(replicas, tested):
    """Four groups, twenty rounds: with all picks in one group p = 8·4⁻ᴮ, 20 of which is 1e-3."""
    one_sided = replicas * torch.nn.functional.one_hot(torch.zeros(20, dtype=torch.int64), 4)
    finding = examine(balanced(one_sided), level=1e-3)
    assert finding.verdict == ("parity rejected" if tested else "not tested: too few replicas")
    assert bool(finding.p.isnan().all()) is not tested
    if tested:
        assert finding.p.tolist() == pytest.approx([8 * 0.25**replicas] * 20)


def test_holm_by_hand():
    """Of 0.01, 0.04, 0.03, 0.005: 4 × 0.005, 3 × 0.01, 2 × 0.03, and 0.04 is not below that."""
    p = torch.tensor([0.01, 0.04, 0.03, 0.005], dtype=torch.float64)
    assert holm(p).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan"), -1.0])
def test_a_level_is_a_probability(level):
    with pytest.raises(FairbanditError, match="level must be above 0 and below 1"):
        mean_band(torch.tensor([1]), 2, level)


def test_impossible_counts_are_refused():
    with pytest.raises(FairbanditError, match="counts must be from 0"):
        mean_band(torch.tensor([3]), 2, 0.05)
    with pytest.raises(FairbanditError, match="two categories"):
        binomial_p(torch.tensor([3]), torch.tensor([3.0]))
