"""The bounds against formulas written out anew, their limits, and where they begin to speak."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from fairbandit import FairbanditError
from fairbandit.theory import (
    Bound,
    Constant,
    constants,
    regret,
    repaired_floor,
    useful_from,
)
from fairbandit.theory.bounds import received_round
from tests import support
from tests.theory.problems import MIXED, OWN


def test_th_regret_by_hand():
    """T = 100, δ = 0.1, λ = 0.04: √λ = 0.2, L²/λ = 100, 96ML/√λ⁺ = 96·0.5·2/0.5 = 192."""
    bound = regret(OWN, rounds=100, delta=0.1, regularization=0.04)
    radius = (0.2 + 1.5 + 2.0) * math.sqrt(5 * 100 * math.log((8 + 4 * 100 * 100) / 0.1))
    assert bound.confidence == pytest.approx(192 * radius)
    assert bound.shrinkage == pytest.approx(192 * 2 * 3)
    assert bound.ranks == pytest.approx(8 * math.sqrt(100 * math.log(24_000) / 3))
    tau_1 = 32 * 27 * (math.log(150) + 1) ** 1.5
    tau_2 = 54 * 4 / 0.25 * math.log(200)
    assert bound.warm_up == pytest.approx(4 * max(tau_1, tau_2) + 3)
    assert bound.total == bound.confidence + bound.shrinkage + bound.ranks + bound.warm_up


def test_th_regret_2_by_hand():
    """K = 10, G = 4, q_K = 0.5, α = 0.6, δ₁ = δ₂ = 0.05; τ₁ is the largest of three."""
    bound = regret(MIXED, 1000, delta=0.1, regularization=4.0, alpha=0.6)
    lead = 96 * 0.5 * 2 * math.sqrt(10) / math.sqrt(0.25 * 0.5 * 4)
    radius = (2 + 1.5 + 2) * math.sqrt(5 * 1000 * math.log((8 + 4 * 1000) / 0.05))
    assert bound.confidence == pytest.approx(lead * radius)
    assert bound.shrinkage == pytest.approx(lead * math.sqrt(4 * 1000) * 3)
    log = math.log(8 * 4 * 1000 / 0.05)
    assert bound.ranks == pytest.approx(8 * math.sqrt(1000 * log / (3 * 0.6 * 0.5)))
    log = math.log(5 * 4 * math.e / 0.05)
    assert bound.warm_up == pytest.approx(4 * 32 * 1000 / 0.3**1.5 * log**1.5 + 3)


@pytest.mark.parametrize(("known", "alpha"), [(OWN, 0.5), (MIXED, 0.6)])
def test_the_repaired_theorems(known, alpha):
    """q̄λ' stands for q̄λ⁺, and 2⌈max(s + n, 2s)⌉ + 1 for τ; nothing else differs."""
    given = known, 1000, 0.1, 4.0, alpha
    stated, repaired = regret(*given), regret(*given, repaired=True)
    floor = repaired_floor(known, 1000, 0.05 if known.random else 0.1, alpha)
    larger = max(known.share, 1) * 0.25 * (0.25 / 4) ** (known.places - 1)
    assert repaired.growth == pytest.approx(larger)
    factor = math.sqrt(stated.growth / repaired.growth)
    scaled = (factor * stated.confidence, factor * stated.shrinkage, stated.ranks)
    assert (repaired.confidence, repaired.shrinkage, repaired.ranks) == pytest.approx(scaled)
    assert repaired.warm_up == 2 * math.ceil(max(floor.start, 2 * floor.lost)) + 1


@pytest.mark.parametrize("repaired", [False, True])
def test_where_the_bounds_begin_to_speak(repaired):
    """Not before 10⁹ rounds; then from the first such T on."""
    known = constants(support.environment(groups=2, theta=[2, 1, 1]))

    def bound(rounds: float) -> Bound:
        return regret(known, rounds, repaired=repaired)

    first = useful_from(bound)
    assert first is not None
    assert first > 10**9
    assert bound(first).total < first
    assert bound(first - 1).total >= first - 1
    assert all(bound(first * factor).total < first * factor for factor in (1.5, 10, 1e6))
    assert useful_from(lambda rounds: replace(bound(rounds), ranks=rounds)) is None


@pytest.mark.parametrize(
    "given", [{"delta": 0}, {"regularization": 0}, {"rounds": math.inf}, {"alpha": 1}]
)
def test_values_out_of_range(given):
    with pytest.raises(
        FairbanditError, match="expected rounds of at least 1, a delta and an alpha"
    ):
        regret(MIXED, **{"rounds": 100, "delta": 0.05, **given})


@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("places", [2, 10])
@pytest.mark.parametrize("delta", [0.9, 1e-6])
def test_the_burn_in_by_its_union_bound(share, places, delta):
    """s anew: the failures of Dvoretzky, Kiefer and Wolfowitz from s + 1 on sum up to δ/4.

    2K·Σ_{t > s} exp(−2ε²⌈(t − 1)/2⌉) ≤ δ/4 with 2ε = (λ/x²)(1 − 2^{−1/K}). The stated round is
    late by a factor of about 1/ε; the share ε/10 of it is too early.
    """
    least = Constant(4 * share)
    known = replace(OWN, places=places, groups=places, eigenvalue=least, place_eigenvalue=least)
    epsilon = share * (1 - 2 ** (-1 / places)) / 2
    ratio = math.exp(-2 * epsilon**2)

    def missed(first: int) -> float:
        """The sum; ⌈(t − 1)/2⌉ = ⌊t/2⌋ takes every value twice, but for the first at odd t₀."""
        return 2 * places * ratio ** (first // 2) * (2 / (1 - ratio) - first % 2)

    first = int(repaired_floor(known, 10, delta).lost) + 1
    assert missed(first) <= delta / 4
    assert missed(int(first * epsilon / 10)) > delta / 4


def lower_tail(trials: int, chance: Fraction, below: Fraction) -> float:
    """P(N < below) for N binomial, in whole numbers: nothing is rounded before the division."""
    p, q = chance.numerator, chance.denominator
    most = math.ceil(below) - 1
    total, term = 0, (q - p) ** trials
    for successes in range(most + 1):
        total += term
        term = term * (trials - successes) * p // ((successes + 1) * (q - p))
    return float(Fraction(total, q**trials))


@pytest.mark.parametrize(
    ("places", "groups", "chance", "alpha", "delta", "rounds"),
    [
        (10, 10, Fraction(1, 10), Fraction(1, 2), 0.05, 400),
        (3, 2, Fraction(1, 5), Fraction(1, 2), 0.2, 600),
        (1, 2, Fraction(1, 2), Fraction(3, 5), 0.5, 900),
    ],
)
def test_thereceived_round(places, groups, chance, alpha, delta, rounds):
    """The exact tails of all groups and rounds from t_N on, added up, are at most δ."""
    received = Constant(float(places * chance))
    known = replace(MIXED, places=places, groups=groups, candidates=received)
    first = int(received_round(known, rounds, delta, float(alpha)))
    assert first < rounds
    windows = [t - 1 - (t - 1) // 2 for t in range(first, rounds + 1)]
    mean = places * chance
    tails = {n: lower_tail(places * n, chance, alpha * mean * n) for n in set(windows)}
    assert groups * sum(tails[n] for n in windows) <= delta
    assert received_round(OWN, rounds, delta, 0.5) == 3
