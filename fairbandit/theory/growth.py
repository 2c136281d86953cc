"""Lower bounds on the eigenvalues of V, and the bound on one round's regret that they give."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fairbandit.errors import FairbanditError
from fairbandit.theory.constants import Constants
from fairbandit.theory.lemmas import (
    ALPHA,
    DELTA,
    REGULARIZATION,
    floor_round_2,
    positive,
    probability,
    received_round,
)


@dataclass(frozen=True)
class Growth:
    """The bound λ_min(Ŝ_t̃) ≥ rate·(t̃ − lost) for every round t ≥ first (`lm:eiguen`).

    Here Ŝ_t̃ = Σ_{i ≤ t̃} UᵀX_{i,a_i}X_{i,a_i}ᵀU, where the columns of U span the range of Σ.

    Attributes:
        rate: λ⁺_min(Σ)·(q_K·G/K)/4, the growth of λ_min(Ŝ) in each round.
        lost: the number of first rounds that the bound does not count.
        first: the first round for which the bound holds.
        half: the first round for which also t̃ ≥ 2·lost, as `lm:muxbound` needs.
    """

    rate: float
    lost: float
    first: float
    half: float

    def eigenvalue(self, t: float) -> float:
        """The lower bound on λ_min(Ŝ_t̃) (`lm:eiguen`).

        Args:
            t: the round, at least `first`.
        """
        if t < self.first:
            raise FairbanditError(f"t must be at least {self.first:g}, got {t:g}")
        return self.rate * ((t - 1) // 2 - self.lost)

    def context_norm(self, t: float, norm: float) -> float:
        """The upper bound on ‖x‖ in the norm of V_t̃⁻¹, for all x in the support (`lm:boundx`).

        2L/√(λ⁺_min(Σ)·(q_K·G/K)·(t̃ − lost)).

        Args:
            t: the round, at least `first`.
            norm: L.
        """
        grown = self.eigenvalue(t)
        return norm / math.sqrt(grown) if grown else math.inf


def growth(
    problem: Constants,
    rounds: float,
    delta: float = DELTA,
    alpha: float = ALPHA,
    delta_2: float | None = None,
    *,
    corrected: bool = False,
) -> Growth:
    """The growth of λ_min(Ŝ), as the paper states it or corrected (`lm:eiguen`, `lm:boundx`).

    The paper states lost = τ = max(τ₁, τ₂, τ₃) and first = 2τ + 3, with probability at least
    1 − δ/2 given S_T. The corrected version closes four gaps of the proof:

    * `prop:patlowerbound` with c = ½ begins at a round s + 1 that may be later than τ₁;
    * the proof takes no union bound over t;
    * the matrix Chernoff bound d·exp(−(t̃ − τ)λ⁺/(27L²)) exceeds δ/4 where t̃ − τ is small;
    * τ₂ lacks the factor q_K·G/K of λ⁺ (`eq:patboundused`).

    The corrected version has lost = s and asks for t̃ ≥ s + n, where λ' = λ⁺_min(Σ)·q_K·G/K and
    n = 27L²/λ'·log(4d/(δ·(1 − exp(−λ'/(27L²))))). Then Σ_{m ≥ n} d·exp(−mλ'/(27L²)) ≤ δ/4, so that
    the inequality holds for all t at once with the stated probability, if `eq:patboundused` holds;
    `picked_moment` states when it does not.

    Args:
        problem: its constants.
        rounds: T, at least 1.
        delta: δ, or δ₁ of a regret bound.
        alpha: α.
        delta_2: the δ of S_T; `delta` by default.
        corrected: whether to return the corrected version rather than the stated one.

    Returns:
        The growth. Its `first` is infinite if λ⁺_min is 0.

    Raises:
        FairbanditError: a value out of range.
    """
    delta = probability("delta", delta)
    received = delta if delta_2 is None else delta_2
    eigenvalue = problem.eigenvalue.value * problem.share
    picked = floor_round_2(0.5, problem.places, problem.groups, delta, problem.counted(alpha))
    t_n = received_round(problem, rounds, received, alpha, corrected=corrected)
    if corrected:
        lost = math.ceil(max(picked, t_n)) - 1
        needed = lost + _wait(problem.norm.value, eigenvalue, problem.features, delta)
        return Growth(eigenvalue / 4, lost, _round(needed), _round(max(needed, 2 * lost)))
    tau = max(tau_1(problem, delta, alpha), tau_2(problem, delta))
    tau = max(tau, tau_3(problem, rounds, received, alpha))
    return Growth(eigenvalue / 4, tau, 2 * tau + 3, 4 * tau + 3)


def tau_1(problem: Constants, delta: float = DELTA, alpha: float = ALPHA) -> float:
    """τ₁ = 32K³/(αq_K)^{3/2}·log^{3/2}(5Ge/δ): by then every group is picked often enough."""
    log = math.log(5 * problem.groups) + 1 - math.log(probability("delta", delta))
    return 32 * problem.places**3 * (log / problem.counted(probability("alpha", alpha))) ** 1.5


def tau_2(problem: Constants, delta: float = DELTA) -> float:
    """τ₂ = 54L²/λ⁺_min(Σ)·log(4d/δ): by then Σ is estimated well enough."""
    log = math.log(4 * problem.features) - math.log(probability("delta", delta))
    least = problem.eigenvalue.value
    return 54 * problem.norm.value**2 / least * log if least else math.inf


def tau_3(problem: Constants, rounds: float, delta: float = DELTA, alpha: float = ALPHA) -> float:
    """τ₃ = 2/((1 − α)²·q_K)·log(GT/δ): by then every group was received; 0 for fixed groups."""
    log = math.log(problem.groups) + math.log(positive("rounds", rounds, least=1))
    log -= math.log(probability("delta", delta))
    if not problem.random:
        return 0.0
    return 2 / ((1 - probability("alpha", alpha)) ** 2 * problem.candidates.value) * log


def error_bound(
    problem: Constants, t: float, delta: float = DELTA, regularization: float = REGULARIZATION
) -> float:
    """The upper bound on ‖μ* − μ_t̃‖_{V_t̃}·‖x‖_{V_t̃⁻¹} of `lm:muxbound`.

    8L/√(λ⁺_min(Σ)·(q_K·G/K)·t)·[(√λ + R + L)·√(d·log((8 + 4t·max(L²/λ, 1))/δ)) + √λ·‖μ*‖₂], for
    all t ≥ `Growth.half` at once, with probability at least 1 − 3δ/4 given S_T. The factor q_K·G/K
    is 1 where each group has a place of its own.

    Args:
        problem: its constants.
        t: the round.
        delta: δ.
        regularization: λ.

    Returns:
        The bound, in units of reward.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, ridge = probability("delta", delta), positive("regularization", regularization)
    t, norm = positive("t", t, least=3), problem.norm.value
    log = math.log(8 + 4 * t * max(norm**2 / ridge, 1)) - math.log(delta)
    radius = (math.sqrt(ridge) + problem.noise.value + norm) * math.sqrt(problem.features * log)
    grown = problem.eigenvalue.value * problem.share * t
    factor = 8 * norm / math.sqrt(grown) if grown else math.inf
    return factor * (radius + math.sqrt(ridge) * problem.theta)


def instant_regret(
    problem: Constants,
    t: float,
    rounds: float,
    error: float,
    delta: float = DELTA,
    alpha: float = ALPHA,
) -> float:
    """A bound on the fair regret of one round (`lm:instantbound`, `lm:instantbound_2`).

    6M·‖μ* − μ_t̃‖_{V_t̃}·‖x_max‖_{V_t̃⁻¹} + 2√(log(8KT/δ)/(t − 1)) where each group has a place of its
    own, for all t from 3 up to T at once, with probability at least 1 − δ/4. Otherwise the root is
    √(log(16GT/δ)/((t − 1)·αq_K)), from t_N on and given S_T. The paper's 16 could be 8.

    Args:
        problem: its constants.
        t: the round, at least 3.
        rounds: T, at least 1.
        error: the product of norms, or a bound on it such as `error_bound`.
        delta: δ.
        alpha: α.

    Returns:
        The bound, in ranks; it is informative only below 1.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, t = probability("delta", delta), positive("t", t, least=3)
    factor = 8 * problem.places if problem.own_places else 16 * problem.groups
    log = math.log(factor) + math.log(positive("rounds", rounds, least=1)) - math.log(delta)
    counted = problem.counted(probability("alpha", alpha))
    return 6 * problem.density.value * error + 2 * math.sqrt(log / ((t - 1) * counted))


def cdf_slope(problem: Constants) -> float:
    """2ML, a Lipschitz constant of a group's CDF as a function of the model (`lm:cdfbound`).

    sup_{a, r} |F_a(r) − F_{⟨μ, X_a⟩}(r)| ≤ 2ML·‖μ* − μ‖₂ for every μ, and
    |F_a(r) − F_a(r')| ≤ M·|r − r'|.

    Args:
        problem: its constants.
    """
    return 2 * problem.density.value * problem.norm.value


def picked_moment(problem: Constants, share: float) -> float:
    """The lower bound on the eigenvalues of a pick's second moment (`eq:patboundused`).

    The paper states that E[X_{t,a_t}X_{t,a_t}ᵀ | past] ⪰ c·(q_K·G/K)·Σ in every round where
    P(a_t = a | s_{t,a}, past) ≥ c/K. The eigenvalues on the range of Σ are then at least
    c·(q_K·G/K)·λ⁺_min(Σ).

    The statement can fail. Its proof assumes that a picked context is distributed like any context
    of its group, although it was picked for its rank. If contexts of high rank are small, the
    second moment is smaller: if every X_a is uniform on [0, 1] and μ* = −1, the pick is the least
    of K contexts, and its E[x²] = 2/((K + 1)(K + 2)) is below the stated c/3. No positive constant
    holds for all distributions of contexts. The statement is true if
    E[⟨v, X_a⟩² | a_t = a, past] ≥ E[⟨v, X_a⟩²] for all v.

    Args:
        problem: its constants.
        share: c, from 0 up to 1.

    Raises:
        FairbanditError: a share out of range.
    """
    if not 0 <= share <= 1:
        raise FairbanditError(f"share must be at least 0 and at most 1, got {share}")
    return share * problem.share * problem.eigenvalue.value


def expected_picks(problem: Constants, rounds: float) -> float:
    """T/K, the expected number of times Fair-Greedy picks each group (the remark after `DGP`).

    Args:
        problem: its constants.
        rounds: T, at least 1.

    Raises:
        FairbanditError: a value out of range, or groups that have no place of their own.
    """
    if not problem.own_places:
        raise FairbanditError("T/K picks of each group are expected where each has its own place")
    return positive("rounds", rounds, least=1) / problem.places


def _wait(norm: float, eigenvalue: float, features: int, delta: float) -> float:
    """The least n with Σ_{m ≥ n} d·exp(−mλ'/(27L²)) ≤ δ/4."""
    rate = eigenvalue / (27 * norm**2)
    if not rate:
        return math.inf
    return (math.log(4 * features) - math.log(delta) - math.log(-math.expm1(-rate))) / rate


def _round(learned: float) -> float:
    """The first round t for which t̃ = ⌊(t − 1)/2⌋ is at least `learned`."""
    return 2.0 * math.ceil(learned) + 1 if math.isfinite(learned) else math.inf
