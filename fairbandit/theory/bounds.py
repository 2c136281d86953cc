"""The paper's bounds on the fair pseudo-regret of Fair-Greedy, term by term."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from fairbandit.errors import FairbanditError
from fairbandit.theory.constants import Constants, Estimate
from fairbandit.theory.growth import growth, tau_1, tau_2, tau_3
from fairbandit.theory.lemmas import ALPHA, DELTA, REGULARIZATION, positive, probability

LIMIT = 10**30
"""`useful_from` does not search beyond this round."""


@dataclass(frozen=True)
class Bound:
    """A bound on R_F(T), stated to hold with probability at least 1 − δ, as a sum.

    Its proof rests on `eq:patboundused`; `picked_moment` says where that may fail.

    Attributes:
        label: the statement's, in the paper's source.
        rounds: T.
        confidence: what the confidence set around μ* costs (the term with √(dT·log …)).
        shrinkage: what regularisation costs (the term with √(λT)·‖μ*‖₂).
        ranks: what empirical CDFs cost (the term with log(8KT/δ) or log(8GT/δ₁)).
        tau_1: rounds until all groups are picked often enough.
        tau_2: rounds until Σ is estimated well enough.
        tau_3: rounds until all groups were received often enough; 0 where groups are not random.
        corrected_warm_up: what stands for τ with the corrected constants (`growth`).
    """

    label: str
    rounds: float
    confidence: float
    shrinkage: float
    ranks: float
    tau_1: float
    tau_2: float
    tau_3: float
    corrected_warm_up: float = math.nan

    @property
    def warm_up(self) -> float:
        """τ = 4·max(τ₁, τ₂, τ₃) + 3, the rounds whose regret the bound counts as 1."""
        return 4 * max(self.tau_1, self.tau_2, self.tau_3) + 3

    @property
    def total(self) -> float:
        """The bound. Since R_F(T) ≤ T always holds, it is informative only below T."""
        return self.confidence + self.shrinkage + self.ranks + self.warm_up

    @property
    def corrected_total(self) -> float:
        """The bound with the corrected warm-up."""
        return self.confidence + self.shrinkage + self.ranks + self.corrected_warm_up


def regret(
    problem: Constants, rounds: float, delta: float = DELTA, regularization: float = REGULARIZATION
) -> Bound:
    """The bound where each group has its own place (`th:regret`): `regret_2` with q_K = 1, α = 1.

    R_F(T) ≤ 96ML/√λ⁺·[(√λ + R + L)·√(dT·log((8 + 4T·max(L²/λ, 1))/δ)) + √(λT)·‖μ*‖₂]
    + 8·√(T·log(8KT/δ)/3) + τ, with τ₁ = 32K³·log^{3/2}(5Ke/δ), τ₂ = 54L²/λ⁺·log(4d/δ).

    Args:
        problem: its constants.
        rounds: T, at least 1.
        delta: δ.
        regularization: λ.

    Returns:
        The bound, in ranks (a round loses at most 1).

    Raises:
        FairbanditError: a value out of range, or groups that have no place of their own.
    """
    if not problem.own_places:
        raise FairbanditError(
            f"th:regret takes K = G and a place for each group; here K = {problem.places} and G = "
            f"{problem.groups}, {'drawn at random' if problem.random else 'fixed'}: use th:regret_2"
        )
    return replace(regret_2(problem, rounds, delta, regularization), label="th:regret")


def regret_2(
    problem: Constants,
    rounds: float,
    delta: float = DELTA,
    regularization: float = REGULARIZATION,
    alpha: float = ALPHA,
    delta_2: float | None = None,
) -> Bound:
    """The bound for many candidates a group (`th:regret_2`).

    As `regret`, with M√K/√(λ⁺q_K·G) for M/√λ⁺, 8·√(T·log(8GT/δ₁)/(3αq_K)) for the ranks, and
    τ₁ = 32K³/(αq_K)^{3/2}·log^{3/2}(5Ge/δ₁), τ₂ = 54L²/λ⁺·log(4d/δ₁),
    τ₃ = 2/((1 − α)²q_K)·log(GT/δ₂). Where groups are not random, α = 1, δ₁ = δ and τ₃ = 0.

    Args:
        problem: its constants.
        rounds: T, at least 1.
        delta: δ = δ₁ + δ₂.
        regularization: λ.
        alpha: α, the share of a group's expected candidates that is counted on.
        delta_2: δ₂, below δ; half of it by default.

    Returns:
        The bound, in ranks.

    Raises:
        FairbanditError: a value out of range.
    """
    rounds, ridge = positive("rounds", rounds, least=1), positive("regularization", regularization)
    alpha, delta = probability("alpha", alpha), probability("delta", delta)
    second = delta / 2 if delta_2 is None else delta_2
    if not 0 < second < delta:
        raise FairbanditError(f"delta_2 must be above 0 and below delta={delta}, got {second}")
    delta, second = (delta - second, second) if problem.random else (delta, delta)
    norm, least = problem.norm.value, problem.eigenvalue.value * problem.share
    lead = 96 * problem.density.value * norm / math.sqrt(least) if least else math.inf
    log = math.log(8 + 4 * rounds * max(norm**2 / ridge, 1)) - math.log(delta)
    radius = math.sqrt(problem.features * rounds * log)
    log_ranks = math.log(8 * problem.groups) + math.log(rounds) - math.log(delta)
    return Bound(
        label="th:regret_2",
        rounds=rounds,
        confidence=lead * (math.sqrt(ridge) + problem.noise.value + norm) * radius,
        shrinkage=lead * math.sqrt(ridge * rounds) * problem.theta if problem.theta else 0.0,
        ranks=8 * math.sqrt(rounds * log_ranks / (3 * problem.counted(alpha))),
        tau_1=tau_1(problem, delta, alpha),
        tau_2=tau_2(problem, delta),
        tau_3=tau_3(problem, rounds, second, alpha),
        corrected_warm_up=growth(problem, rounds, delta, alpha, second, corrected=True).half,
    )


def equal_probability(
    problem: Constants,
    rounds: float,
    delta: float = DELTA,
    regularization: float = REGULARIZATION,
    alpha: float = ALPHA,
    delta_2: float | None = None,
) -> Bound:
    """The bound for candidates drawn alike at every place (`corr:equalprob`).

    It is `regret_2` with q_K = K·q_min/G, that is `regret` with M/√(λ⁺q_min) for M/√λ⁺,
    8·√(TG·log(8GT/δ₁)/(3Kαq_min)) for the ranks, and
    τ₁ = 32(KG)^{3/2}/(αq_min)^{3/2}·log^{3/2}(5Ge/δ₁), τ₂ = 54L²/λ⁺·log(4d/δ₁),
    τ₃ = 2G/((1 − α)²Kq_min)·log(GT/δ₂).

    Args:
        problem: its constants.
        rounds: T, at least 1.
        delta: δ = δ₁ + δ₂.
        regularization: λ.
        alpha: α, the share of a group's expected candidates that is counted on.
        delta_2: δ₂, below δ; half of it by default.

    Returns:
        The bound, in ranks.

    Raises:
        FairbanditError: a value out of range, or places that are not drawn alike.
    """
    balance = problem.balance
    if balance is None:
        raise FairbanditError(
            "corr:equalprob takes candidates drawn alike at every place, which these are not: "
            "use th:regret or th:regret_2"
        )
    rarest = Estimate.exactly(problem.places * balance.value / problem.groups, balance.how)
    alike = replace(problem, candidates=rarest)
    found = regret_2(alike, rounds, delta, regularization, alpha, delta_2)
    return replace(found, label="corr:equalprob")


def useful_from(bound: Callable[[float], Bound], *, corrected: bool = False) -> int | None:
    """The first T at which a bound on the fair regret R_F(T) says something: it is below T.

    R_F(T) ≤ T holds for any policy. The ratio of the bound to T must fall as T grows, as it does
    for the bounds of this module; the round is then found by bisection. Above 2⁵³ it is exact up
    to the spacing of floating-point numbers.

    Args:
        bound: gives the bound for a T.
        corrected: whether to compare `Bound.corrected_total` with T instead of `Bound.total`.

    Returns:
        The round; None if it is beyond `LIMIT`.

    A bound of 10√T for the confidence set, and the 3 rounds that every warm-up has:

    >>> useful_from(lambda T: Bound("", T, 10 * T**0.5, 0.0, 0.0, 0.0, 0.0, 0.0))
    106
    """

    def speaks(at: int) -> bool:
        found = bound(float(at))
        return (found.corrected_total if corrected else found.total) < at

    high = 1
    while not speaks(high):
        if high > LIMIT:
            return None
        high *= 2
    low = high // 2  # the bound is not below it, or it is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if speaks(middle) else (middle, high)
    return high if high <= LIMIT else None
