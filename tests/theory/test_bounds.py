"""The bounds against formulas written out anew, their limits, and where they begin to speak."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit import FairbanditError
from fairbandit.theory import (
    cdf_radius,
    constants,
    equal_probability,
    floor_round_2,
    probability_floor,
    received_round,
    regret,
    regret_2,
    ridge_radius,
    useful_from,
)
from tests import support
from tests.theory.problems import MIXED, OWN, exactly


def test_th_regret_by_hand():
    """T = 100, δ = 0.1, λ = 0.04: √λ = 0.2, L²/λ = 100, 96ML/√λ⁺ = 96·0.5·2/0.5 = 192."""
    bound = regret(OWN, rounds=100, delta=0.1, regularization=0.04)
    radius = (0.2 + 1.5 + 2.0) * math.sqrt(5 * 100 * math.log((8 + 4 * 100 * 100) / 0.1))
    assert bound.confidence == pytest.approx(192 * radius)
    assert bound.shrinkage == pytest.approx(192 * 2 * 3)
    assert bound.ranks == pytest.approx(8 * math.sqrt(100 * math.log(24_000) / 3))
    assert bound.tau_1 == pytest.approx(32 * 27 * (math.log(150) + 1) ** 1.5)
    assert bound.tau_2 == pytest.approx(54 * 4 / 0.25 * math.log(200))
    assert bound.warm_up == pytest.approx(4 * max(bound.tau_1, bound.tau_2) + 3)
    parts = bound.confidence + bound.shrinkage + bound.ranks + bound.warm_up
    assert bound.total == pytest.approx(parts)


def test_th_regret_2_by_hand():
    """K = 10, G = 4, q_K = 0.5, α = 0.6, δ₁ = 0.07, δ₂ = 0.03."""
    bound = regret_2(MIXED, 1000, delta=0.1, regularization=4.0, alpha=0.6, delta_2=0.03)
    lead = 96 * 0.5 * 2 * math.sqrt(10) / math.sqrt(0.25 * 0.5 * 4)
    radius = (2 + 1.5 + 2) * math.sqrt(5 * 1000 * math.log((8 + 4 * 1000) / 0.07))
    assert bound.confidence == pytest.approx(lead * radius)
    assert bound.shrinkage == pytest.approx(lead * math.sqrt(4 * 1000) * 3)
    log = math.log(8 * 4 * 1000 / 0.07)
    assert bound.ranks == pytest.approx(8 * math.sqrt(1000 * log / (3 * 0.6 * 0.5)))
    log = math.log(5 * 4 * math.e / 0.07)
    assert bound.tau_1 == pytest.approx(32 * 1000 / 0.3**1.5 * log**1.5)
    assert bound.tau_2 == pytest.approx(54 * 4 / 0.25 * math.log(20 / 0.07))
    assert bound.tau_3 == pytest.approx(2 / (0.16 * 0.5) * math.log(4 * 1000 / 0.03))


@pytest.mark.parametrize("rounds", [1, 50, 10**9])
def test_th_regret_2_becomes_th_regret(rounds):
    """G = K and s_a = a: q_K = 1, α = 1, δ₁ = δ; every term agrees, constants included."""
    for known in (OWN, constants(support.environment())):
        one, two = regret(known, rounds, 0.01, 0.5), regret_2(known, rounds, 0.01, 0.5)
        for term in ("confidence", "shrinkage", "ranks", "tau_1", "tau_2", "tau_3", "total"):
            assert getattr(two, term) == pytest.approx(getattr(one, term), rel=1e-12)


@pytest.mark.parametrize("rounds", [1, 50, 10**9])
def test_corr_equalprob_is_th_regret_2_with_equal_places(rounds):
    """Σ_a P(s_a = i) = K·P(s = i), so q_K = K·q_min/G; every term agrees."""
    known = replace(MIXED, candidates=exactly(10 * 0.2 / 4))
    two, corollary = (
        bound(known, rounds, 0.02, 0.3, 0.7) for bound in (regret_2, equal_probability)
    )
    for term in ("confidence", "shrinkage", "ranks", "tau_1", "tau_2", "tau_3", "total"):
        assert getattr(corollary, term) == pytest.approx(getattr(two, term), rel=1e-12)


def test_where_the_bounds_begin_to_speak():
    """On the simulation not before 10⁹ rounds; then from the first such T on."""
    known = constants(support.environment())

    def bound(rounds: float):
        return regret(known, rounds)

    first = useful_from(bound)
    assert first is not None
    assert first > 10**9
    assert bound(first).total < first
    assert bound(first - 1).total >= first - 1
    assert all(bound(first * factor).total < first * factor for factor in (1.5, 10, 1e6))
    assert useful_from(lambda rounds: replace(bound(rounds), ranks=rounds)) is None


@pytest.mark.parametrize("name", ["density", "norm", "noise"])
def test_bounds_rise_with(name):
    changed: dict[str, Any] = {name: exactly(1.1 * getattr(OWN, name).value)}
    more = replace(OWN, **changed)
    assert regret(more, 1000).total > regret(OWN, 1000).total


def test_bounds_that_do_not_apply():
    with pytest.raises(FairbanditError, match="use th:regret_2"):
        regret(MIXED, 10)
    with pytest.raises(FairbanditError, match="drawn alike"):
        equal_probability(OWN, 10)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delta": 0}, "delta must be above 0 and below 1"),
        ({"delta": 1}, "delta must be above 0 and below 1"),
        ({"regularization": 0}, "regularization must be above 0"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"rounds": float("inf")}, "rounds must be at least 1"),
        ({"alpha": 1}, "alpha must be above 0 and below 1"),
        ({"delta_2": 0.05}, "delta_2 must be above 0 and below delta"),
    ],
)
def test_values_out_of_range(given, message):
    with pytest.raises(FairbanditError, match=message):
        regret_2(MIXED, **{"rounds": 100, "delta": 0.05, **given})


def test_lemmas_by_hand():
    """t̃ = 50, λ = 0.04, δ = 0.1; and 101 rounds of 1,000 with two candidates to count on."""
    radius = 3.7 * math.sqrt(5 * math.log((8 + 8 * 50 * 100) / 0.1)) + 0.2 * 3
    assert ridge_radius(OWN, 50, 0.1, 0.04) == pytest.approx(radius)
    band = math.sqrt(math.log(2 * 3 * 1000 / 0.1) / (100 * 2))
    assert cdf_radius(101, 1000, 3, 0.1, candidates=2) == pytest.approx(band)
    assert cdf_radius(101, 1000, 3, 0.1) == pytest.approx(band * math.sqrt(2))


def test_the_probability_floor_by_hand():
    """K = 3, c = 1/8: c^{1/K} = 1/2, so the first round is 3 + 64·log^{3/2}(15e/δ)."""
    log = math.log(15 * math.e / 0.05)
    assert floor_round_2(1 / 8, 3, 3, 0.05) == pytest.approx(3 + 64 * log**1.5)
    mixed = floor_round_2(1 / 8, 3, 3, 0.05, candidates=0.25)
    assert mixed == pytest.approx(3 + 64 * 8 * log**1.5)
    assert floor_round_2(0, 3, 3, 0.05) == pytest.approx(3 + 8 * log**1.5)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_floor_and_round_are_inverse(share):
    for candidates in (1.0, 0.3):
        first = floor_round_2(share, 5, 4, 0.05, candidates)
        assert probability_floor(first, 5, 4, 0.05, candidates) == pytest.approx(share / 5)
    assert probability_floor(3, 5, 4) == 0
    assert probability_floor(10, 5, 4) == 0


@pytest.mark.parametrize("places", [2, 3, 4, 10, 100])
def test_half_of_the_floor_and_the_warm_up(places):
    """From 3 + 2τ₁ on P(a_t = a | the past) ≥ 1/(2K), as `lm:eiguen` says: 1/(1 − 2^{−1/K}) ≤ 2K.

    From 3 + τ₁ on, as its proof counts, this holds by `prop:patlowerbound` for K ≥ 4 only.
    """
    known = replace(OWN, places=places, groups=places)
    tau, first = regret(known, 10, 0.05).tau_1, floor_round_2(0.5, places, places, 0.05)
    assert first <= 3 + 2 * tau
    assert (first <= 3 + tau) == (places >= 4)
    assert first > 3 + 0.7 * tau  # no smaller multiple of it would do for all K


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("places", [2, 4, 10])
@pytest.mark.parametrize(("delta", "early"), [(0.9, 4), (0.05, 8), (1e-6, 20)])
def test_the_floor_round_by_its_union_bound(share, places, delta, early):
    """`prop:patlowerbound` anew: the first t₀ for which DKW's failures from t₀ on sum up to δ/4.

    2K·Σ_{t ≥ t₀} exp(−2ε²⌈(t − 1)/2⌉) ≤ δ/4 with (1 − 2ε)^K = c. For c = 0 a quarter of the
    stated round is too early with δ = 0.9, and an eighth and a twentieth with the smaller δ, since
    it grows with log^{3/2}(1/δ); for greater c it is later still, since it grows with 1/ε³.
    """
    gap = (1 - share ** (1 / places)) / 2
    ratio = math.exp(-2 * gap**2)

    def missed(first: int) -> float:
        """The sum; ⌈(t − 1)/2⌉ = ⌊t/2⌋ takes every value twice, but for the first at odd t₀."""
        once = ratio ** (first // 2)
        return 2 * places * (2 * once / (1 - ratio) - first % 2 * once)

    if share == 0:
        direct = [ratio ** math.ceil((t - 1) / 2) for t in range(7, 1000)]
        assert missed(7) == pytest.approx(2 * places * math.fsum(direct))
    stated = math.ceil(floor_round_2(share, places, places, delta))
    assert missed(stated) <= delta / 4
    assert share > 0 or missed(stated // early) > delta / 4


@pytest.mark.parametrize("known", [OWN, constants(support.environment()), MIXED])
def test_the_bounds_are_the_sums_of_their_lemmas(known):
    """Σ_{t ≥ τ} of `lm:instantbound` with `lm:muxbound` for its first term, by quadrature.

    At T = 10¹⁶ the stated terms are above these sums, by at most 4 % where the proof uses
    Σ t^{−1/2} ≤ 2√T alone, and by 2/√3 for the ranks, where it takes 1/(t − 1) ≤ 4/(3t).
    `lm:muxbound` in turn is above the product of `lm:boundx` and `lm:boundmu`, by 2 to √8.
    """
    rounds, delta, ridge, alpha = 1e16, 0.05, 0.3, 0.7
    if known.own_places:
        bound, given, counted, share = regret(known, rounds, delta, ridge), delta, 1.0, 1.0
    else:
        bound = regret_2(known, rounds, delta, ridge, alpha, delta_2=0.02)
        given, counted = 0.03, alpha * known.candidates.value
        share = known.candidates.value * known.groups / known.places
    norm, least = known.norm.value, share * known.eigenvalue.value
    log_t = np.linspace(math.log(bound.warm_up), math.log(rounds), 200_001)
    t = np.exp(log_t)

    def total(values: NDArray[np.float64]) -> float:
        return float(np.trapezoid(values * t, log_t))

    logs = known.features * np.log((8 + 4 * t * max(norm**2 / ridge, 1)) / given)
    factor = 8 * norm / np.sqrt(least * t)
    confidence = factor * (math.sqrt(ridge) + known.noise.value + norm) * np.sqrt(logs)
    shrinkage = factor * math.sqrt(ridge) * known.theta
    for term, each in ((bound.confidence, confidence), (bound.shrinkage, shrinkage)):
        assert 1 <= term / (6 * known.density.value * total(each)) < 1.04
    at = np.geomspace(bound.warm_up, rounds, 2000)
    radii = [cdf_radius(when, rounds, known.groups, given / 4, counted) for when in at]
    ranks = np.trapezoid(2 * np.array(radii) * at, np.log(at))
    assert bound.ranks / ranks == pytest.approx(2 / math.sqrt(3), rel=0.001)

    learned = (at - 2) / 2
    wait = max(bound.tau_1, bound.tau_2, bound.tau_3)
    furthest = 2 * norm / np.sqrt(least * (learned - wait))
    product = furthest * [ridge_radius(known, one, given, ridge) for one in learned]
    stated = np.interp(np.log(at), log_t, confidence + shrinkage)
    assert 1.9 < (stated / product).min() < 2.1
    assert (stated / product).max() == pytest.approx(math.sqrt(8), rel=0.02)


def test_the_received_round():
    assert received_round(OWN, 1000) == 3
    wait = 2 / (0.25 * 0.5) * math.log(4 * 1000 / 0.05)
    assert received_round(MIXED, 1000) == 3 + math.ceil(wait)
