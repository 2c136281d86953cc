"""Estimates with their intervals: by Student's t, from a rank statistic, and by betting.

References: Mann and Whitney (1947); Fan, Grama and Liu, "Exponential inequalities for martingales
with applications", EJP 2015; Waudby-Smith and Ramdas, "Estimating means of bounded random variables
by betting", JRSS B 2024; Karampatziakis et al., "Off-policy confidence sequences", ICML 2021.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairbandit.logs import Floats, Ints

BETS, CENTRES = np.meshgrid(np.geomspace(1e-4, 0.5, 24), np.linspace(0, 1, 5))
"""The bets λ and the centres c of `lower_end`."""


class Interval(NamedTuple):
    """A value, the ends of its interval, the decisions it rests on, and their effective number."""

    value: float
    low: float
    high: float
    n: int
    ess: float


def interval(
    value: float, deviation: float, n: int, ess: float, level: float, fitted: int = 1
) -> Interval:
    """An interval by the standard deviation of the influence of a decision, and Student's t.

    It has `ess` − `fitted` degrees of freedom, for a value that is a mean of so many fitted ones.
    """
    from scipy.stats import t  # here, since it takes half a second

    half, freedom = math.inf, ess - fitted
    if freedom > 1e-9:
        wider = math.sqrt((ess - 1) / freedom)
        half = float(t.ppf((1 + level) / 2, freedom)) * wider * deviation / math.sqrt(n)
    return Interval(value, value - half, value + half, n, ess)


def weight_below(values: Floats, weights: Floats, side: str = "right") -> Floats:
    """The weight of all values that are at most each one; with side="left", less than it.

    >>> weight_below(np.array([3.0, 1.0, 1.0]), np.array([2.0, 1.0, 1.0])).tolist()
    [4.0, 2.0, 2.0]
    """
    order = values.argsort()
    ordered, sums = values[order], np.append(0.0, weights[order].cumsum())
    below = np.empty_like(values)
    below[order] = sums[ordered.searchsorted(ordered, side)]  # type: ignore[call-overload]
    return below


def win(
    weights: Floats, rewards: Floats, references: Floats, groups: Ints, level: float
) -> Interval:
    """P(reward of a pick > reward of a random candidate of its group), ties counting one half.

    A Mann-Whitney statistic, weighted by inverse propensities on both sides: over pairs i ≠ j of
    one group, its share is Σ wᵢ(1/pⱼ)1{rⱼ < rᵢ} / Σ wᵢ(1/pⱼ), and v is the mean of the groups'
    shares, weighted by their Σ wᵢ. By sorting, it takes O(n log n). A group with one pick counts ½.
    The share of each group takes a degree of freedom from the interval.

    Args:
        weights, rewards, references, groups: as `weighted_picks` gives them, (n, m).
        level: of the interval.
    """
    w, r, reference = (part.ravel() for part in (weights, rewards, references))
    influence, g, value, shares = np.zeros_like(w), groups.ravel(), 0.0, 0
    for group in np.unique(g):
        here = np.flatnonzero(g == group)
        one, other = w[here], reference[here]
        of_group, references_of = float(one.sum()), float(other.sum())
        # as a pick and as a reference; its own reward ties with itself
        below = one * (_halved(r[here], other) - other / 2)
        above = other * (of_group - _halved(r[here], one) - one / 2)
        every = one * (references_of - other) + other * (of_group - one)
        pairs = float(every.sum()) / 2
        known = pairs > 1e-12 * of_group * references_of
        share = float(below.sum()) / pairs if known else 0.5
        value += of_group * share / float(w.sum())
        shares += of_group > 0
        influence[here] = one * share
        if known:
            influence[here] += of_group * (below + above - share * every) / pairs
    influence = (influence - w * value) / w.mean()
    each, one = weights.mean(1), influence.reshape(weights.shape).mean(1)
    ess = float(each.sum() ** 2 / (each**2).sum())
    deviation = float(np.sqrt((one**2).sum() / max(len(one) - 1, 1)))
    return interval(value, deviation, len(each), ess, level, shares)


def _halved(values: Floats, weights: Floats) -> Floats:
    """The weight of all values below each one, and half of that of those equal to it."""
    return (weight_below(values, weights, "left") + weight_below(values, weights)) / 2


def lower_end(n: int, mean: float, square: float, alpha: float) -> float:
    """The least mean in [0, 1] that n values leave possible, with probability 1 − α for all n.

    Let Z₁, Z₂, … ≥ 0 have the conditional means v₁, v₂, …, which may change. For a bet λ in [0, 1)
    and a centre c in [0, 1], with ψ(λ) = −ln(1 − λ) − λ,

        W(λ, c) = exp(λ Σ (Zₜ − vₜ) − ψ(λ) Σ (Zₜ − c)²)

    is a supermartingale, since exp(λξ − ψ(λ)ξ²) ≤ 1 + λξ for ξ ≥ −1 (Fan, Grama and Liu): the
    wealth of a gambler who bets on Z. The average over λ and c ever exceeds 1/α with probability at
    most α (Ville), however large Z may be. So the mean of v₁, …, vₙ is one for which it does not,
    and that rests on the mean of Z and that of its square alone.
    """
    spread = n * (square - 2 * CENTRES * mean + CENTRES**2)
    fixed = (np.log1p(-BETS) + BETS) * spread - math.log(BETS.size / alpha)
    low, high = 0.0, 1.0
    for _ in range(32):
        middle = (low + high) / 2
        exceeds = np.logaddexp.reduce(fixed + BETS * n * (mean - middle), axis=None) > 0
        low, high = (middle, high) if exceeds else (low, middle)
    return low
