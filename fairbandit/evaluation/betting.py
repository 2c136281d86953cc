"""Bets against a mean, whose winnings refute it after any number of observations.

References: Fan, Grama and Liu, "Exponential inequalities for martingales with applications", EJP
2015; Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B
2024; Karampatziakis et al., "Off-policy confidence sequences", ICML 2021.
"""

from __future__ import annotations

import math

import numpy as np

from fairbandit.logs import Floats
from fairbandit.runs.intervals import Span

STAKES = np.geomspace(3e-3, 0.94, 10)
"""The shares of wealth that gamblers bet on each decision."""

BETS, CENTRES = np.meshgrid(np.geomspace(1e-4, 0.5, 24), np.linspace(0, 1, 5))
"""The bets λ and the centres c of `lower_end`."""


def lower_end(n: int, mean: float, square: float, alpha: float) -> float:
    """Returns a lower bound of a mean in [0, 1], valid for all n with probability 1 − α.

    Let Z₁, Z₂, … ≥ 0 have the conditional means v₁, v₂, …, which may change. For a bet λ in [0, 1)
    and a centre c in [0, 1], with ψ(λ) = −ln(1 − λ) − λ, the wealth of a gambler

        W(λ, c) = exp(λ Σ (Zₜ − vₜ) − ψ(λ) Σ (Zₜ − c)²)

    is a supermartingale, since exp(λξ − ψ(λ)ξ²) ≤ 1 + λξ for ξ ≥ −1 (Fan, Grama and Liu). Its mean
    over λ and c ever exceeds 1/α with probability at most α (Ville), however large Z is. The bound
    is the least mean of v₁, …, vₙ for which it stays below 1/α. It depends on the means of Z and Z²
    alone.
    """
    spread = n * (square - 2 * CENTRES * mean + CENTRES**2)
    fixed = (np.log1p(-BETS) + BETS) * spread - math.log(BETS.size / alpha)
    low, high = 0.0, 1.0
    for _ in range(32):
        middle = (low + high) / 2
        exceeds = np.logaddexp.reduce(fixed + BETS * n * (mean - middle), axis=None) > 0
        low, high = (middle, high) if exceeds else (low, middle)
    return low


def reward_ends(
    n: int, mean: Floats, scatter: Floats, span: Span, share: float, confidence: float
) -> tuple[float, float]:
    """Returns the ends of an interval of the mean reward Σ wr / Σ w, valid for all n.

    The sums are those of `Moments`, with wr and w as the first numbers. The `share` is the mean of
    w, which is known: 1, or the share of a group in the picks.
    """
    # for r in [0, 1], E[w(1 − r)] is E[w] − E[wr]: each gives one end
    squares, ends = scatter / n + np.outer(mean, mean), list[float]()
    for start, stop in (span, span[::-1]):
        way = np.zeros(len(mean))
        way[:2] = 1 / (stop - start), -start / (stop - start)  # maps the range to [0, 1]
        end = lower_end(n, float(way @ mean), float(way @ squares @ way), (1 - confidence) / 2)
        ends.append(start + (stop - start) * min(end / share, 1.0))
    return ends[0], ends[1]
