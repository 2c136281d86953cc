"""Estimates from weighted rewards: inverse propensities, doubly robust, and a rank statistic.

The weight of a pick is w = π/p, the probability with which the policy that is judged picks the
candidate, over that with which it was picked. For n decisions of m picks, with rewards r and a
model q of the mean reward that was trained on other decisions,

    ips    v = mean of (1/m) Σⱼ wⱼrⱼ
    snips  v = Σ wr / Σ w
    dr     v = mean of (1/m) (Σₐ πₐq(a) + Σⱼ wⱼ(rⱼ − q(aⱼ)))

and `win` is the probability that the reward of a pick is above that of a random candidate of its
own group. Intervals are normal, by the influence function of a decision, so that the picks of one
decision may depend on each other.

References: Horvitz and Thompson (1952); Swaminathan and Joachims, "The self-normalized estimator
for counterfactual learning", NeurIPS 2015; Dudík, Langford and Li, "Doubly robust policy evaluation
and learning", ICML 2011.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairbandit.logs import Floats, Ints


class Estimate(NamedTuple):
    """An estimate with its interval.

    Attributes:
        value, low, high: the estimate, and the ends of the interval.
        n: how many decisions it rests on.
        ess: the effective number, (Σw)²/Σw².
    """

    value: float
    low: float
    high: float
    n: int
    ess: float


def ips(weights: Floats, rewards: Floats, level: float) -> Estimate:
    """Inverse propensity score, of weights and rewards (n, m)."""
    return _mean((weights * rewards).mean(1), weights, level)


def snips(weights: Floats, rewards: Floats, level: float) -> Estimate:
    """Self-normalised inverse propensity score, of weights and rewards (n, m)."""
    value = float((weights * rewards).sum() / weights.sum())
    influence = (weights * (rewards - value)).mean(1) / weights.mean()
    return interval(value, influence, weights, level)


def doubly_robust(
    weights: Floats, rewards: Floats, predicted: Floats, expected: Floats, level: float
) -> Estimate:
    """The doubly robust estimate.

    Args:
        weights, rewards: (n, m).
        predicted: q of the picks, (n, m).
        expected: (1/m) Σₐ πₐq(a), (n,).
        level: of the interval.
    """
    return _mean(expected + (weights * (rewards - predicted)).mean(1), weights, level)


def win(weights: Floats, rewards: Floats, chances: Floats, groups: Ints, level: float) -> Estimate:
    """P(reward of a pick > reward of a random candidate of its group), ties counting one half.

    A Mann-Whitney statistic, weighted by inverse propensities on both sides,
    v = Σᵢ wᵢFᵢ(rᵢ) / Σᵢ wᵢ, where Fᵢ(r) is the share of rewards of i's group below r, each weighted
    by 1/p, without i's own. By sorting, it takes O(n log n).

    Args:
        weights, rewards: (n, m).
        chances: p, the probability with which each was picked, (n, m).
        groups: of the picks, (n, m).
        level: of the interval.
    """
    w, r, p, g = (part.ravel() for part in (weights, rewards, chances, groups))
    share, pulled = np.full_like(w, 0.5), np.zeros_like(w)
    for group in np.unique(g):
        here = np.flatnonzero(g == group)
        one, reference = w[here], 1 / p[here]
        total = reference.sum()
        others = total - reference
        below = _below(r[here], reference) - reference / 2  # without its own, which ties
        alone = others <= 0
        share[here] = np.where(alone, 0.5, below / np.where(alone, 1.0, others))
        # as a reference, i adds to the shares of all rewards above its own
        above = one.sum() - _below(r[here], one) - one / 2
        weighted = (one * share[here]).sum() - one * share[here]
        pulled[here] = reference * (above - weighted) / total
    value = float((w * share).sum() / w.sum())
    influence = (w * (share - value) + pulled) / w.mean()
    return interval(value, influence.reshape(weights.shape).mean(1), weights, level)


def _below(values: Floats, weights: Floats) -> Floats:
    """The weight of all values below each one, and half of that of those equal to it."""
    order = values.argsort()
    ordered, sums = values[order], np.append(0.0, weights[order].cumsum())
    low, high = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    halves: Floats = (sums[low] + sums[high]) / 2
    return halves


def effective(weights: Floats) -> float:
    """The effective number of decisions, (Σw)²/Σw², where w is the mean weight of one."""
    w = weights.mean(1)
    return float(w.sum() ** 2 / (w**2).sum()) if w.any() else 0.0


def interval(value: float, influence: Floats, weights: Floats, level: float) -> Estimate:
    """An estimate with its interval by Student's t, of `ess` − 1 degrees of freedom.

    Args:
        value: the estimate.
        influence: of each decision, (n,); their mean is 0.
        weights: (n, m).
        level: of the interval.
    """
    from scipy.stats import t  # here, since it takes half a second

    n, ess = len(influence), effective(weights)
    half = math.inf
    if ess > 1:
        error = influence.std(ddof=1) / math.sqrt(n)
        half = float(t.ppf((1 + level) / 2, ess - 1) * error)
    return Estimate(value, value - half, value + half, n, ess)


def _mean(values: Floats, weights: Floats, level: float) -> Estimate:
    return interval(float(values.mean()), values - values.mean(), weights, level)
