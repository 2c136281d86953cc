"""Intervals for a mean that hold at all times at once, by betting.

Let Z₁, Z₂, … ≥ 0 have the conditional means v₁, v₂, …, which may change. For a bet λ in [0, 1) and
a centre c in [0, 1], with ψ(λ) = −ln(1 − λ) − λ,

    W(λ, c) = exp(λ Σ (Zₜ − vₜ) − ψ(λ) Σ (Zₜ − c)²)

is a supermartingale, since exp(λξ − ψ(λ)ξ²) ≤ 1 + λξ for ξ ≥ −1 (Fan, Grama and Liu): the wealth of
a gambler who bets on Z. So is the average of many, which ever exceeds 1/α with probability at most
α (Ville). The values of v₁ + … + vₙ under which it has not are a confidence set at every n at once,
and it rests on the sums of Z and Z² alone.

The weighted reward Z = wr with r in [0, 1] has the mean that is sought, and w(1 − r) has 1 minus
it, since E[w] = 1; each gives one end. No bound on the weights is needed.

References: Fan, Grama and Liu, "Exponential inequalities for martingales with applications", EJP
2015; Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B
2024; Karampatziakis, Mineiro and Ramdas, "Off-policy confidence sequences", ICML 2021.
"""

from __future__ import annotations

import math

import numpy as np

BETS, CENTRES = np.meshgrid(np.geomspace(1e-4, 0.5, 24), np.linspace(0, 1, 5))
"""The bets λ and the centres c, whose wealths are averaged."""

STEPS = 32
"""Halvings of the search for an end."""


def lower_end(n: int, mean: float, square: float, alpha: float) -> float:
    """The lowest mean in [0, 1] that n values do not rule out at α.

    Args:
        n: how many values, each at least 0.
        mean, square: of the values, and of their squares.
        alpha: the probability that the mean is below it at any time.
    """
    spread = n * (square - 2 * CENTRES * mean + CENTRES**2)
    fixed = (np.log1p(-BETS) + BETS) * spread - math.log(BETS.size / alpha)
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        logs = fixed + BETS * n * (mean - middle)
        largest = float(logs.max())
        exceeds = largest > 0 or largest + math.log(np.exp(logs - largest).sum()) > 0
        low, high = (middle, high) if exceeds else (low, middle)
    return low
