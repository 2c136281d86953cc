"""The lemmas behind the bounds: concentration of ridge and ranks, and the probability floor.

The formulas are the paper's (Grazzi et al., NeurIPS 2022). Where a printed formula does not hold,
`corrected=True` gives one that does.
"""

from __future__ import annotations

import math

from fairbandit.errors import FairbanditError
from fairbandit.theory.constants import Constants

DELTA = 0.05
"""δ where it is not given. Regret bounds hold with probability at least 1 − δ."""

REGULARIZATION = 0.1
"""λ where it is not given, as in the paper's experiments."""

ALPHA = 0.5
"""α where it is not given: the share of a group's expected candidates that is counted on."""


def probability(name: str, value: float) -> float:
    """The value, if it is between 0 and 1.

    Raises:
        FairbanditError: it is not.
    """
    if not 0 < value < 1:
        raise FairbanditError(f"{name} must be above 0 and below 1, got {value}")
    return value


def positive(name: str, value: float, least: float = 0.0) -> float:
    """The value, if it is finite, above 0 and not below the least one.

    Raises:
        FairbanditError: it is not.
    """
    if not (math.isfinite(value) and value > 0 and value >= least):
        raise FairbanditError(
            f"{name} must be {f'at least {least:g}' if least else 'above 0'} "
            f"and finite, got {value}"
        )
    return value


def ridge_radius(
    problem: Constants, learned: float, delta: float = DELTA, regularization: float = REGULARIZATION
) -> float:
    """The bound on the distance of the ridge estimate from μ* in the norm of V (`lm:boundmu`).

    ‖μ* − μ_t̃‖_{V_t̃} ≤ (√λ + R + L)·√(d·log((8 + 8t̃·max(L²/λ, 1))/δ)) + √λ·‖μ*‖₂, for all t ≥ 3
    at once, with probability at least 1 − δ/4. The tail of γ that the paper's proof claims does not
    hold, yet the statement does for d ≥ 2: ‖γ‖₂² is beyond d³·log((8 + 8t̃)/δ) at some t̃ with
    probability below δ/8. For d = 1 that needs the injected noise ρ to be small, as it is by
    default.

    Args:
        problem: its constants.
        learned: t̃, the number of rounds that trained the estimate, at least 1.
        delta: δ.
        regularization: λ.

    Returns:
        The bound on the norm, in units of reward.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, ridge = probability("delta", delta), positive("regularization", regularization)
    learned = positive("learned", learned, least=1)
    norm = problem.norm.value
    log = math.log(8 + 8 * learned * max(norm**2 / ridge, 1)) - math.log(delta)
    scale = math.sqrt(ridge) + problem.noise.value + norm
    return scale * math.sqrt(problem.features * log) + math.sqrt(ridge) * problem.theta


def cdf_radius(
    t: float, rounds: float, groups: int, delta: float = DELTA, candidates: float = 1.0
) -> float:
    """The bound on the distance of empirical CDFs from the true ones (`lm:dwk`, `lm:dwk_2`).

    sup_{i, r} |F̂_t(r, i) − F_{Z_i}(r)| ≤ √(log(2GT/δ)/((t − 1)·αq_K)), for all t from t_N up to T
    at once, with probability at least 1 − δ given S_T(t_N, α), the event of `lm:chernoff` that a
    window holds αq_K candidates of each group a round; and so with 1 − 2δ where groups are random.
    Where they are fixed, S_T is certain, α = 1 and t_N = 3; `lm:dwk` is the case G = K, q_K = 1.

    Args:
        t: the round, at least t_N (`received_round`), which is at least 3.
        rounds: T.
        groups: G.
        delta: δ.
        candidates: αq_K (`Constants.counted`).

    Returns:
        The bound on the difference of the CDFs, at least 0; it is informative only below 1.

    Raises:
        FairbanditError: a value out of range.

    >>> round(cdf_radius(t=101, rounds=1000, groups=4, delta=0.05), 4)
    0.3462
    """
    delta, t = probability("delta", delta), positive("t", t, least=3)
    rounds, candidates = positive("rounds", rounds, least=1), positive("candidates", candidates)
    log = math.log(2 * groups) + math.log(rounds) - math.log(delta)
    return math.sqrt(log / ((t - 1) * candidates))


def floor_round_2(
    share: float, places: int, groups: int, delta: float = DELTA, candidates: float = 1.0
) -> float:
    """The round after which every group is picked often enough (`prop:patlowerbound_2`).

    t ≥ max(t_N, 3 + 8·log^{3/2}(5Ge/δ)·(1 − c^{1/K})⁻³·(αq_K)^{−3/2}): then
    P(a_t = a | s_{t,a}, past) ≥ c/K for all a, with probability at least 1 − δ/4 given
    S_T(t_N, α); and so with 1 − 5δ/4 where groups are random, S_T having probability 1 − δ
    (`lm:chernoff`). Where they are fixed, S_T is certain and t_N = 3; `prop:patlowerbound` is the
    case G = K, αq_K = 1.

    Args:
        share: c, from 0 up to but not 1.
        places: K.
        groups: G.
        delta: δ.
        candidates: αq_K.

    Returns:
        The right-hand side without t_N (`received_round`), in rounds.

    Raises:
        FairbanditError: a value out of range.

    >>> round(floor_round_2(0.5, places=4, groups=4, delta=0.05))
    36723
    """
    delta, candidates = probability("delta", delta), positive("candidates", candidates)
    if not 0 <= share < 1:
        raise FairbanditError(f"share must be at least 0 and below 1, got {share}")
    gap = 1 - share ** (1 / places)
    return 3 + 8 * (math.log(5 * groups) + 1 - math.log(delta)) ** 1.5 / (gap**3 * candidates**1.5)


def received_round(
    problem: Constants,
    rounds: float,
    delta: float = DELTA,
    alpha: float = ALPHA,
    *,
    corrected: bool = False,
) -> float:
    """The round after which every group was received often enough (t_N of `lm:chernoff`).

    t_N = 3 + ⌈2/((1 − α)²·q_K)·log(GT/δ)⌉ where groups are random, else 3: then the window of
    rounds t̃+1 … t−1 holds at least αq_K candidates a round of every group, for all t from t_N up
    to T, with probability at least 1 − δ. The corrected constant is 4 instead of 2: the window has
    n = t − 1 − t̃ ≥ (t − 1)/2 rounds, and the Chernoff bound P(N_{t,i} < nαq_K) ≤
    exp(−(1 − α)²·n·q_K/2) is at most δ/(GT) once n ≥ 2/((1 − α)²·q_K)·log(GT/δ).

    Args:
        problem: its constants.
        rounds: T, at least 1.
        delta: δ.
        alpha: α.
        corrected: whether to take 4 for the constant rather than the paper's 2.

    Returns:
        t_N, in rounds.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, alpha = probability("delta", delta), probability("alpha", alpha)
    rounds = positive("rounds", rounds, least=1)
    if not problem.random:
        return 3.0
    wait = (4 if corrected else 2) / ((1 - alpha) ** 2 * problem.candidates.value)
    return 3.0 + math.ceil(wait * (math.log(problem.groups) + math.log(rounds) - math.log(delta)))


def probability_floor(
    t: float, places: int, groups: int, delta: float = DELTA, candidates: float = 1.0
) -> float:
    """The lower bound on the probability of each group at round t (`prop:patlowerbound`).

    It is c/K for the largest c for which `floor_round_2` is at most t. It holds with the
    probability stated there, given S_T.

    Args:
        t: the round, at least t_N (`received_round`), which is at least 3.
        places: K.
        groups: G.
        delta: δ.
        candidates: αq_K.

    Returns:
        The floor, from 0 up to 1/K.

    Raises:
        FairbanditError: a value out of range.

    >>> round(probability_floor(36724, places=4, groups=4, delta=0.05), 4)
    0.125
    """
    delta, t = probability("delta", delta), positive("t", t, least=3)
    candidates = positive("candidates", candidates)
    if t == 3:
        return 0.0
    root = (math.log(5 * groups) + 1 - math.log(delta)) / ((t - 3) ** (2 / 3) * candidates)
    return max(0.0, 1 - 2 * math.sqrt(root)) ** places / places
