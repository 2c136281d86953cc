"""How V grows in every direction, and the regret of a single round that follows from it."""

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
    """λ_min(Ŝ_t̃) ≥ rate·(t̃ − lost) at every round t ≥ first (`lm:eiguen`).

    Ŝ_t̃ = Σ_{i ≤ t̃} UᵀX_{i,a_i}X_{i,a_i}ᵀU, U spanning the range of Σ.

    Attributes:
        rate: λ⁺_min(Σ)·(q_K·G/K)/4, by which λ_min(Ŝ) grows a round.
        lost: the rounds that are not counted.
        first: the first round of the statement.
        half: from this round on t̃ is at least 2·lost too, as `lm:muxbound` needs.
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
    of: Constants,
    rounds: float,
    delta: float = DELTA,
    alpha: float = ALPHA,
    delta_2: float | None = None,
    *,
    corrected: bool = False,
) -> Growth:
    """From which round on V grows in every direction, and how fast (`lm:eiguen`, `lm:boundx`).

    As stated: lost = τ = max(τ₁, τ₂, τ₃), first = 2τ + 3, with probability at least 1 − δ/2 given
    S_T. That leaves gaps: `prop:patlowerbound` with c = ½ begins at a round s + 1 that may be later
    than τ₁; no union over t is taken; the matrix Chernoff bound d·exp(−(t̃ − τ)λ⁺/(27L²)) is not
    below δ/4 where t̃ − τ is small; and τ₂ lacks the factor q_K·G/K of λ⁺ (`eq:patboundused`).

    A fifth gap stays open (`picked_moment`): that a pick's second moment is at least c·(q_K·G/K)·Σ.

    Corrected: lost = s, and t̃ ≥ s + n with n = 27L²/λ'·log(4d/(δ·(1 − exp(−λ'/(27L²))))),
    λ' = λ⁺_min(Σ)·q_K·G/K: then Σ_{m ≥ n} d·exp(−mλ'/(27L²)) ≤ δ/4, so that the same inequality
    holds for all t at once, with the same probability, wherever `eq:patboundused` does.

    Args:
        of: the problem's constants.
        rounds: T, at least 1.
        delta: δ, or δ₁ of a regret bound.
        alpha: α.
        delta_2: the δ of S_T, where it is another.
        corrected: whether to close the gaps rather than to take what is stated.

    Returns:
        The growth; `first` is infinite where λ⁺_min is 0.

    Raises:
        FairbanditError: a value out of range.
    """
    delta = probability("delta", delta)
    received = delta if delta_2 is None else delta_2
    eigenvalue = of.eigenvalue.value * of.share
    picked = floor_round_2(0.5, of.places, of.groups, delta, of.counted(alpha))
    t_n = received_round(of, rounds, received, alpha, corrected=corrected)
    if corrected:
        lost = math.ceil(max(picked, t_n)) - 1
        needed = lost + _wait(of.norm.value, eigenvalue, of.features, delta)
        return Growth(eigenvalue / 4, lost, _round(needed), _round(max(needed, 2 * lost)))
    tau = max(
        picked_from(of, delta, alpha),
        known_from(of, delta),
        received_from(of, rounds, received, alpha),
    )
    return Growth(eigenvalue / 4, tau, 2 * tau + 3, 4 * tau + 3)


def picked_from(of: Constants, delta: float = DELTA, alpha: float = ALPHA) -> float:
    """τ₁ = 32K³/(αq_K)^{3/2}·log^{3/2}(5Ge/δ), until all groups are picked often enough."""
    log = math.log(5 * of.groups) + 1 - math.log(probability("delta", delta))
    return 32 * of.places**3 * (log / of.counted(probability("alpha", alpha))) ** 1.5


def known_from(of: Constants, delta: float = DELTA) -> float:
    """τ₂ = 54L²/λ⁺_min(Σ)·log(4d/δ), until Σ is estimated well enough."""
    log = math.log(4 * of.features) - math.log(probability("delta", delta))
    least = of.eigenvalue.value
    return 54 * of.norm.value**2 / least * log if least else math.inf


def received_from(
    of: Constants, rounds: float, delta: float = DELTA, alpha: float = ALPHA
) -> float:
    """τ₃ = 2/((1 − α)²·q_K)·log(GT/δ), until all groups were received; 0 where they are fixed."""
    log = math.log(of.groups) + math.log(positive("rounds", rounds, least=1))
    log -= math.log(probability("delta", delta))
    if not of.random:
        return 0.0
    return 2 / ((1 - probability("alpha", alpha)) ** 2 * of.candidates.value) * log


def error_bound(
    of: Constants, t: float, delta: float = DELTA, regularization: float = REGULARIZATION
) -> float:
    """The right side of `lm:muxbound`, a bound on ‖μ* − μ_t̃‖_{V_t̃}·‖x‖_{V_t̃⁻¹}.

    8L/√(λ⁺_min(Σ)·(q_K·G/K)·t)·[(√λ + R + L)·√(d·log((8 + 4t·max(L²/λ, 1))/δ)) + √λ·‖μ*‖₂], for
    all t ≥ `Growth.half` at once, with probability at least 1 − 3δ/4 given S_T. The factor q_K·G/K
    is 1 where each group has a place of its own.

    Args:
        of: the problem's constants.
        t: the round.
        delta: δ.
        regularization: λ.

    Returns:
        The bound, in units of reward.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, ridge = probability("delta", delta), positive("regularization", regularization)
    t, norm = positive("t", t, least=3), of.norm.value
    log = math.log(8 + 4 * t * max(norm**2 / ridge, 1)) - math.log(delta)
    radius = (math.sqrt(ridge) + of.noise.value + norm) * math.sqrt(of.features * log)
    grown = of.eigenvalue.value * of.share * t
    factor = 8 * norm / math.sqrt(grown) if grown else math.inf
    return factor * (radius + math.sqrt(ridge) * of.theta)


def instant_regret(
    of: Constants,
    t: float,
    rounds: float,
    error: float,
    delta: float = DELTA,
    alpha: float = ALPHA,
) -> float:
    """A bound on the fair regret of one round (`lm:instantbound`, `lm:instantbound_2`).

    6M·‖μ* − μ_t̃‖_{V_t̃}·‖x_max‖_{V_t̃⁻¹} + 2√(log(8KT/δ)/(t − 1)) where each group has a place of its
    own, for all t from 3 up to T at once, with probability at least 1 − δ/4. Otherwise the root is
    √(log(16GT/δ)/((t − 1)·αq_K)), from t_N on and given S_T; 8 would do for the paper's 16.

    Args:
        of: the problem's constants.
        t: the round, at least 3.
        rounds: T, at least 1.
        error: the product of norms, or a bound on it such as `error_bound`.
        delta: δ.
        alpha: α.

    Returns:
        The bound, in ranks; only below 1 does it say anything.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, t = probability("delta", delta), positive("t", t, least=3)
    factor = 8 * of.places if of.own_places else 16 * of.groups
    log = math.log(factor) + math.log(positive("rounds", rounds, least=1)) - math.log(delta)
    counted = of.counted(probability("alpha", alpha))
    return 6 * of.density.value * error + 2 * math.sqrt(log / ((t - 1) * counted))


def cdf_slope(of: Constants) -> float:
    """2ML, how fast a group's CDF moves with the model (`lm:cdfbound`).

    sup_{a, r} |F_a(r) − F_{⟨μ, X_a⟩}(r)| ≤ 2ML·‖μ* − μ‖₂ for every μ, and
    |F_a(r) − F_a(r')| ≤ M·|r − r'|.

    Args:
        of: the problem's constants.
    """
    return 2 * of.density.value * of.norm.value


def picked_moment(of: Constants, share: float) -> float:
    """The least eigenvalue that a pick's second moment has on the range of Σ (`eq:patboundused`).

    E[X_{t,a_t}X_{t,a_t}ᵀ | past] ⪰ c·(q_K·G/K)·Σ, and so its eigenvalues are at least
    c·(q_K·G/K)·λ⁺_min(Σ), at every round where P(a_t = a | s_{t,a}, past) ≥ c/K. The paper's proof
    takes a picked context to be distributed as any of its group. It is not, since it was picked for
    its rank, and where contexts that rank high are small the statement fails: with every X_a
    uniform on [0, 1] and μ* = −1, the pick is the least of K, whose E[x²] = 2/((K + 1)(K + 2)) is
    below the c/3 that is stated. No positive constant does for all laws of contexts. It holds
    where E[⟨v, X_a⟩² | a_t = a, past] ≥ E[⟨v, X_a⟩²] for all v.

    Args:
        of: the problem's constants.
        share: c, from 0 up to 1.

    Raises:
        FairbanditError: a share out of range.
    """
    if not 0 <= share <= 1:
        raise FairbanditError(f"share must be at least 0 and at most 1, got {share}")
    return share * of.share * of.eigenvalue.value


def expected_picks(of: Constants, rounds: float) -> float:
    """T/K, how often Fair-Greedy picks each group in expectation (the remark after `DGP`).

    Args:
        of: the problem's constants.
        rounds: T, at least 1.

    Raises:
        FairbanditError: a value out of range, or groups that have no place of their own.
    """
    if not of.own_places:
        raise FairbanditError("T/K picks of each group are expected where each has its own place")
    return positive("rounds", rounds, least=1) / of.places


def _wait(norm: float, eigenvalue: float, features: int, delta: float) -> float:
    """The least n with Σ_{m ≥ n} d·exp(−mλ'/(27L²)) ≤ δ/4."""
    rate = eigenvalue / (27 * norm**2)
    if not rate:
        return math.inf
    return (math.log(4 * features) - math.log(delta) - math.log(-math.expm1(-rate))) / rate


def _round(learned: float) -> float:
    """The first round t with t̃ = ⌊(t − 1)/2⌋ of at least so many."""
    return 2.0 * math.ceil(learned) + 1 if math.isfinite(learned) else math.inf
