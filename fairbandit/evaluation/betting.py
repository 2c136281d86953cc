"""Intervals for a mean that hold at all times at once, by betting.

Let Z₁, Z₂, … ≥ 0 have the conditional mean v ≤ 1. A gambler who bets the fraction λ in [0, 1] on
Z − v has the wealth W(λ) = Π (1 + λ(Zₜ − v)), a martingale, and so is its average over many λ. By
Ville's inequality the average ever exceeds 1/α with probability at most α, so that the values v
under which it has not are a confidence set at every time. It falls with v, so that the set is all
above one number.

The inverse-propensity weighted reward Z = wr with r in [0, 1] has the mean that is sought, and
w(1 − r) has 1 minus it, since E[w] = 1; each gives one end. No bound on the weights is needed.

References: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS
B 2024; Karampatziakis, Mineiro and Ramdas, "Off-policy confidence sequences", ICML 2021;
Waudby-Smith et al., "Anytime-valid off-policy inference for contextual bandits", 2022.
"""

from __future__ import annotations

import math

import numpy as np

from fairbandit.logs import Floats

FRACTIONS = np.geomspace(1e-4, 0.5, 24)
"""The bets λ, whose wealths are averaged."""

STEPS = 40
"""Halvings of the search for an end."""


def log_wealth(values: Floats, mean: float) -> float:
    """ln of the average wealth after n values, (n,), if the mean were v."""
    sums = np.array([np.log1p(one * (values - mean)).sum() for one in FRACTIONS])
    return float(np.logaddexp.reduce(sums) - math.log(len(FRACTIONS)))


def lower_end(values: Floats, alpha: float) -> float:
    """The lowest mean in [0, 1] that the values, (n,) and at least 0, do not rule out at α."""
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if log_wealth(values, middle) >= math.log(1 / alpha):
            low = middle
        else:
            high = middle
    return low


def anytime_interval(
    weights: Floats, rewards: Floats, span: tuple[float, float], level: float
) -> tuple[float, float]:
    """The ends of a time-uniform interval for the mean reward, of weights and rewards (n, m).

    Args:
        weights, rewards: of the picks.
        span: the least and the greatest possible reward.
        level: of the interval.
    """
    low, high = span
    scaled = (rewards - low) / (high - low)
    alpha = (1 - level) / 2
    least = lower_end((weights * scaled).mean(1), alpha)
    most = 1 - lower_end((weights * (1 - scaled)).mean(1), alpha)
    return low + (high - low) * least, low + (high - low) * most
