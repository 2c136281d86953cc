"""Bounds on the fair pseudo-regret of Fair-Greedy: from the paper, and with a repaired proof.

The paper is Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS
2022; labels such as `th:regret` refer to its source. One step of its proofs is false: `lm:eiguen`,
and `eq:patboundused` for several candidates per group, assume that *picked* contexts have the same
second moment as all contexts of their group, although they were picked for their ranks.
`repaired_floor` is a valid replacement, and `repaired=True` gives the regret theorems with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fairbandit.errors import FairbanditError
from fairbandit.theory.constants import Constants

DELTA, REGULARIZATION, ALPHA = 0.05, 0.1, 0.5
"""The defaults of δ, of the ridge's λ and of α; see `regret`."""

LAST_ROUND = 10**30  # `useful_from` does not search beyond this round


@dataclass(frozen=True)
class Floor:
    """Lower bounds on the second moments of picks that replace `lm:eiguen`, `eq:patboundused`.

    Attributes:
        moment: q̄λ'/2; for all rounds i > `lost`, E[X_pick X_pickᵀ | past] ⪰ (q̄λ'/2)·UUᵀ.
        lost: s, the number of first rounds without a guarantee.
        start: s + n; for all t with t̃ ≥ s + n, λ_min(Ŝ_t̃) ≥ (q̄λ'/4)·(t̃ − s).
    """

    moment: float
    lost: float
    start: float

    @property
    def warm_up(self) -> float:
        """2⌈max(s + n, 2s)⌉ + 1, the number of rounds whose regret a bound counts as 1."""
        most = max(self.start, 2 * self.lost)
        return 2.0 * math.ceil(most) + 1 if math.isfinite(most) else math.inf


@dataclass(frozen=True)
class Bound:
    """A bound on R_F(T) that holds with probability at least 1 − δ, as a sum of four terms.

    Attributes:
        rounds: T.
        growth: λ⁺_min(Σ)·q̄ in the paper's bound, q̄λ' in the repaired bound. `confidence` and
            `shrinkage` are proportional to 1/√growth; replacing it by 2λ_κ gives the terms of an
            instance (`pick_moments`).
        confidence: the term of the confidence set around μ*, with √(dT·log …).
        shrinkage: the term of regularisation, with √(λT)·‖μ*‖₂.
        ranks: the term of the empirical CDFs, with log(8KT/δ) or log(8GT/δ₁).
        warm_up: the term of the first rounds, whose regret is counted as 1.
    """

    rounds: float
    growth: float
    confidence: float
    shrinkage: float
    ranks: float
    warm_up: float

    @property
    def total(self) -> float:
        """The sum of the terms. Since R_F(T) ≤ T always holds, it is informative only below T."""
        return self.confidence + self.shrinkage + self.ranks + self.warm_up


def repaired_floor(
    problem: Constants, rounds: float, delta: float = DELTA, alpha: float = ALPHA
) -> Floor:
    """Bounds the growth of picks' second moments from below, for all problems with the constants.

    With x = x_max, λ' = λ·(λ/x²)^(K−1), L = ln(5Ge/δ) and q̄ = q_K·G/K:
    s = ⌈max(t_N, 3 + 8·L^{3/2}·(x²/λ)³·(1 − 2^{−1/K})⁻³·(αq_K)^{−3/2})⌉ − 1 and
    n = 27x²/(q̄λ')·ln(4d/(δ·(1 − e^{−q̄λ'/(27x²)}))). On the event of `lm:chernoff`, the bound on the
    moment holds with probability at least 1 − δ/4, and the bound on λ_min(Ŝ) with 1 − δ/2. Both
    also hold with λ̄ (`Constants.place_eigenvalue`) for λ and 1 for q̄; the larger bound is returned.
    A larger λ' is impossible without further assumptions.

    For the arguments, see `regret`; T affects only t_N, which `received_round` defines.

    Raises:
        FairbanditError: a value is out of range.
    """
    _check_ranges(rounds, delta, alpha)
    square, places = problem.norm.value**2, problem.places
    pairs = (problem.eigenvalue.value, problem.share), (problem.place_eigenvalue.value, 1.0)
    growth, least = max(
        (share * value * (value / square) ** (places - 1), value) for value, share in pairs
    )
    rate = growth / (27 * square)
    if not rate:
        return Floor(0.0, math.inf, math.inf)
    gap = least / square * (1 - 2 ** (-1 / places))
    log = math.log(5 * problem.groups * math.e / delta)
    late = 3 + 8 * (log / problem.counted(alpha)) ** 1.5 / gap**3
    lost = math.ceil(max(received_round(problem, rounds, delta, alpha), late)) - 1
    wait = math.log(4 * problem.features / (delta * -math.expm1(-rate))) / rate
    return Floor(growth / 2, lost, lost + wait)


def received_round(problem: Constants, rounds: float, delta: float, alpha: float) -> float:
    """Returns t_N of `lm:chernoff`, the round from which every group was received often enough.

    t_N = 3 + ⌈4/((1 − α)²·q_K)·log(GT/δ)⌉ for random groups, else 3. With probability at least
    1 − δ, for all t from t_N to T, the window of rounds t̃+1 … t−1 has at least αq_K candidates per
    round of every group. The paper has 2 instead of 4, as if the window had t rounds. It has
    n = t − 1 − t̃ ≥ (t − 1)/2 rounds, and the Chernoff bound exp(−(1 − α)²·n·q_K/2) is at most
    δ/(GT) once n ≥ 2/((1 − α)²·q_K)·log(GT/δ).
    """
    return 3.0 + math.ceil(_window(problem, rounds, delta, alpha))


def _window(problem: Constants, rounds: float, delta: float, alpha: float) -> float:
    if not problem.random:
        return 0.0
    log = math.log(problem.groups * rounds / delta)
    return 4 / ((1 - alpha) ** 2 * problem.candidates.value) * log


def regret(
    problem: Constants,
    rounds: float,
    delta: float = DELTA,
    regularization: float = REGULARIZATION,
    alpha: float = ALPHA,
    *,
    repaired: bool = False,
) -> Bound:
    """Returns the regret bound for one place per group (`th:regret`) or several (`th:regret_2`).

    R_F(T) ≤ 96Mx/√(q̄λ⁺)·[(√λ + R + x)·√(dT·log((8 + 4T·max(x²/λ, 1))/δ₁)) + √(λT)·‖μ*‖₂]
    + 8·√(T·log(8GT/δ₁)/(3αq_K)) + τ, where λ⁺ = λ⁺_min(Σ), q̄ = q_K·G/K, τ = 4·max(τ₁, τ₂, τ₃) + 3,
    τ₁ = 32K³/(αq_K)^{3/2}·log^{3/2}(5Ge/δ₁), τ₂ = 54x²/λ⁺·log(4d/δ₁) and
    τ₃ = 2/((1 − α)²q_K)·log(GT/δ₂). The repaired bound has q̄λ' instead of q̄λ⁺, and
    2⌈max(s + n, 2s)⌉ + 1 instead of τ (`repaired_floor`). For random groups, δ₁ = δ₂ = δ/2; else
    α = 1, δ₁ = δ and τ₃ = 0. With one place per group, q_K = 1 and q̄ = 1. For candidates with the
    same distribution at every place and q_K = K·q_min/G, this is `corr:equalprob`.

    Args:
        problem: the constants of the problem.
        rounds: T, at least 1.
        delta: δ; the bound holds with probability at least 1 − δ.
        regularization: λ of the ridge.
        alpha: α, the share of a group's expected candidates that the bound relies on.
        repaired: whether to return the repaired bound instead of the paper's bound.

    Returns:
        The bound, in units of rank (a round loses at most 1).

    Raises:
        FairbanditError: a value is out of range.
    """
    _check_ranges(rounds, delta, alpha, regularization)
    delta, ridge, norm = problem.split(delta), regularization, problem.norm.value
    if repaired:
        floor = repaired_floor(problem, rounds, delta, alpha)
        growth, warm_up = 2 * floor.moment, floor.warm_up
    else:
        least = problem.eigenvalue.value
        growth = least * problem.share
        log = math.log(5 * problem.groups * math.e / delta)
        first = 32 * problem.places**3 * (log / problem.counted(alpha)) ** 1.5
        log = math.log(4 * problem.features / delta)
        second = 54 * norm**2 / least * log if least else math.inf
        third = _window(problem, rounds, delta, alpha) / 2
        warm_up = 4 * max(first, second, third) + 3
    lead = 96 * problem.density.value * norm / math.sqrt(growth) if growth else math.inf
    log = math.log((8 + 4 * rounds * max(norm**2 / ridge, 1)) / delta)
    scale = math.sqrt(ridge) + problem.noise.value + norm
    counted = math.log(8 * problem.groups * rounds / delta) / (3 * problem.counted(alpha))
    return Bound(
        rounds=rounds,
        growth=growth,
        confidence=lead * scale * math.sqrt(problem.features * rounds * log),
        shrinkage=lead * math.sqrt(ridge * rounds) * problem.theta if problem.theta else 0.0,
        ranks=8 * math.sqrt(rounds * counted),
        warm_up=warm_up,
    )


def useful_from(bound: Callable[[float], Bound]) -> int | None:
    """The first T at which a bound on the fair regret R_F(T) is informative, i.e. below T.

    R_F(T) ≤ T holds for any policy. The ratio of the bound to T must decrease in T, as for the
    bounds of this module; T is then found by bisection. Above 2⁵³ it is exact up to the spacing of
    floating-point numbers. Returns None if T is beyond `LAST_ROUND`.

    >>> useful_from(lambda T: Bound(T, 1.0, 10 * T**0.5, 0.0, 0.0, 3.0))
    106
    """
    low, high = 0, LAST_ROUND
    if bound(float(high)).total >= high:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(float(middle)).total < middle else (middle, high)
    return high


def _check_ranges(
    rounds: float, delta: float, alpha: float = ALPHA, regularization: float = REGULARIZATION
) -> None:
    in_range = 1 <= rounds < math.inf and 0 < regularization < math.inf
    if not (in_range and 0 < delta < 1 and 0 < alpha < 1):
        raise FairbanditError(
            "expected rounds of at least 1, a delta and an alpha above 0 and below 1, and a "
            f"regularization above 0, all finite; got rounds={rounds}, delta={delta}, "
            f"alpha={alpha}, regularization={regularization}"
        )
