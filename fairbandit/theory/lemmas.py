"""The lemmas behind the bounds: concentration of ridge and ranks, and the probability floor."""

from __future__ import annotations

import math

from fairbandit.errors import FairbanditError
from fairbandit.theory.constants import Constants

DELTA = 0.05
"""δ where it is not given: bounds hold with probability at least 1 − δ."""

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
    of: Constants,
    learned: float,
    delta: float = DELTA,
    regularization: float = REGULARIZATION,
) -> float:
    """How far the ridge estimate can be from μ*, in the norm of V (`lm:boundmu`).

    ‖μ* − μ_t̃‖_{V_t̃} ≤ (√λ + R + L)·√(d·log((8 + 8t̃·max(L²/λ, 1))/δ)) + √λ·‖μ*‖₂, for all t ≥ 3
    at once, with probability at least 1 − δ/4.

    Args:
        of: the problem's constants.
        learned: t̃, the rounds that taught the estimate, at least 1.
        delta: δ.
        regularization: λ.

    Returns:
        The bound on the norm, in units of reward.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, ridge = probability("delta", delta), positive("regularization", regularization)
    learned = positive("learned", learned, least=1)
    norm = of.norm.value
    log = math.log((8 + 8 * learned * max(norm**2 / ridge, 1)) / delta)
    scale = math.sqrt(ridge) + of.noise.value + norm
    return scale * math.sqrt(of.features * log) + math.sqrt(ridge) * of.theta


def cdf_radius(
    t: float, rounds: float, groups: int, delta: float = DELTA, candidates: float = 1.0
) -> float:
    """How far empirical CDFs can be from the true ones (`lm:dwk`, `lm:dwk_2`).

    sup_{a, r} |F̂_{t,a}(r) − F_{Z_a}(r)| ≤ √(log(2GT/δ)/((t − 1)·αq_K)), for all t up to T at once,
    with probability at least 1 − δ. `lm:dwk` is the case G = K, αq_K = 1, from t = 3 on.

    Args:
        t: the round, at least 3.
        rounds: T.
        groups: G.
        delta: δ.
        candidates: αq_K, how many candidates of a group each round can be counted on.

    Returns:
        The bound on the difference of the CDFs, from 0 on; only below 1 does it say anything.

    Raises:
        FairbanditError: a value out of range.

    >>> round(cdf_radius(t=101, rounds=1000, groups=4, delta=0.05), 4)
    0.3462
    """
    delta, t = probability("delta", delta), positive("t", t, least=3)
    rounds, candidates = positive("rounds", rounds, least=1), positive("candidates", candidates)
    return math.sqrt(math.log(2 * groups * rounds / delta) / ((t - 1) * candidates))


def floor_round(share: float, places: int, delta: float = DELTA) -> float:
    """From which round on no group is picked with probability below c/K (`prop:patlowerbound`).

    t ≥ 3 + 8·log^{3/2}(5Ke/δ)/(1 − c^{1/K})³: then P(a_t = a | past) ≥ c/K for all a, with
    probability at least 1 − δ/4.

    Args:
        share: c, from 0 up to but not 1.
        places: K.
        delta: δ.

    Returns:
        The right-hand side, in rounds.

    Raises:
        FairbanditError: a value out of range.

    >>> round(floor_round(0.5, places=4, delta=0.05))
    36723
    """
    return floor_round_2(share, places, places, delta)


def floor_round_2(
    share: float, places: int, groups: int, delta: float = DELTA, candidates: float = 1.0
) -> float:
    """The same for candidates of random groups (`prop:patlowerbound_2`), but for t_N.

    t ≥ 3 + 8·log^{3/2}(5Ge/δ)·(1 − c^{1/K})⁻³·(αq_K)^{−3/2}; the round must also be at least t_N of
    `lm:chernoff`, which is 3 where groups are not random.

    Args:
        share: c, from 0 up to but not 1.
        places: K.
        groups: G.
        delta: δ.
        candidates: αq_K.

    Returns:
        The right-hand side, in rounds.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, candidates = probability("delta", delta), positive("candidates", candidates)
    if not 0 <= share < 1:
        raise FairbanditError(f"share must be at least 0 and below 1, got {share}")
    gap = 1 - share ** (1 / places)
    return 3 + 8 * math.log(5 * groups * math.e / delta) ** 1.5 / (gap**3 * candidates**1.5)


def received_round(
    of: Constants, rounds: float, delta: float = DELTA, alpha: float = ALPHA
) -> float:
    """From which round on every group was received often enough (t_N of `lm:chernoff`).

    t_N = 3 + ⌈2/((1 − α)²·q_K)·log(GT/δ)⌉ where groups are random, else 3: then a window's
    rounds t̃+1 … t−1 hold at least αq_K candidates a round of every group, for all t up to T,
    with probability at least 1 − δ.

    Args:
        of: the problem's constants.
        rounds: T, at least 1.
        delta: δ.
        alpha: α.

    Returns:
        t_N, in rounds.

    Raises:
        FairbanditError: a value out of range.
    """
    delta, alpha = probability("delta", delta), probability("alpha", alpha)
    rounds = positive("rounds", rounds, least=1)
    if not of.random:
        return 3.0
    wait = 2 / ((1 - alpha) ** 2 * of.candidates.value)
    return 3.0 + math.ceil(wait * math.log(of.groups * rounds / delta))


def probability_floor(
    t: float, places: int, groups: int, delta: float = DELTA, candidates: float = 1.0
) -> float:
    """The probability that no group is picked with less than at round t (`prop:patlowerbound`).

    c/K for the largest c whose first round, `floor_round_2`, is at most t.

    Args:
        t: the round, at least 3.
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
    root = math.log(5 * groups * math.e / delta) / ((t - 3) ** (2 / 3) * candidates)
    return max(0.0, 1 - 2 * math.sqrt(root)) ** places / places
