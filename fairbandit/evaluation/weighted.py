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

from fairbandit.errors import FairbanditError
from fairbandit.evaluation.betting import lower_end
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


class Weighted(NamedTuple):
    """Sums of some decisions for `ips`, `snips` and `dr`: those of more decisions add up.

    A decision gives three numbers, means over its m picks: wr, w, and the summand of `dr`.

    Attributes:
        n: how many decisions.
        mean: of the three numbers, (3,).
        scatter: Σ of the products of their deviations from the mean, (3, 3).
        largest: the largest weight.
    """

    n: int
    mean: Floats
    scatter: Floats
    largest: float

    @classmethod
    def of(cls, weights: Floats, rewards: Floats, predicted: Floats, expected: Floats) -> Weighted:
        """The sums of n decisions.

        Args:
            weights, rewards: (n, m).
            predicted: q of the picks, (n, m).
            expected: (1/m) Σₐ πₐq(a), (n,).

        Raises:
            FairbanditError: products that are beyond double precision.
        """
        if not len(weights):
            return cls(0, np.zeros(3), np.zeros((3, 3)), 0.0)
        with np.errstate(all="ignore"):
            robust = expected + (weights * (rewards - predicted)).mean(1)
            three = np.stack([(weights * rewards).mean(1), weights.mean(1), robust])
            mean = three.mean(1)
            centred = three - mean[:, None]
            scatter = centred @ centred.T
        if not np.isfinite(scatter).all():
            raise FairbanditError("the log has rewards or weights too large to be squared")
        return cls(three.shape[1], mean, scatter, float(weights.max()))

    def merged(self, other: Weighted) -> Weighted:
        """The sums of both together (Chan, Golub and LeVeque, 1979)."""
        n, apart = self.n + other.n, other.mean - self.mean
        share = other.n / max(n, 1)
        scatter = self.scatter + other.scatter + np.outer(apart, apart) * self.n * share
        return Weighted(n, self.mean + apart * share, scatter, max(self.largest, other.largest))

    @property
    def ess(self) -> float:
        """The effective number of decisions, (Σw)²/Σw²."""
        mean = float(self.mean[1])
        square = float(self.scatter[1, 1]) / max(self.n, 1) + mean**2
        return self.n * mean**2 / square if square else 0.0

    def estimates(self, level: float) -> dict[str, Estimate]:
        """The estimates by name; without `snips` where all weights are 0."""
        wr, w, robust = self.mean.tolist()
        found = {"ips": self._estimate(wr, np.array([1.0, 0.0, 0.0]), level)}
        if w > 0:
            found["snips"] = self._estimate(wr / w, np.array([1.0, -wr / w, 0.0]) / w, level)
        return found | {"dr": self._estimate(robust, np.array([0.0, 0.0, 1.0]), level)}

    def anytime(self, least: float, greatest: float, level: float) -> Estimate:
        """`ips` with an interval that holds at all times at once, for rewards in a range."""
        ends, alpha, wide = [math.nan, math.nan], (1 - level) / 2, greatest - least
        squares = self.scatter / self.n + np.outer(self.mean, self.mean)
        for at, (sign, origin) in enumerate(((1, least), (-1, greatest))):
            # of ±(r − origin), which is at least 0
            way = sign * np.array([1.0, -origin, 0.0]) / wide
            end = lower_end(self.n, float(way @ self.mean), float(way @ squares @ way), alpha)
            ends[at] = origin + sign * wide * end
        return Estimate(float(self.mean[0]), ends[0], ends[1], self.n, self.ess)

    def _estimate(self, value: float, gradient: Floats, level: float) -> Estimate:
        """An estimate with an interval by the delta method."""
        variance = float(gradient @ self.scatter @ gradient) / max(self.n - 1, 1)
        return interval(value, math.sqrt(max(variance, 0.0)), self.n, self.ess, level)


def win(
    weights: Floats, rewards: Floats, references: Floats, groups: Ints, level: float
) -> Estimate:
    """P(reward of a pick > reward of a random candidate of its group), ties counting one half.

    A Mann-Whitney statistic, weighted by inverse propensities on both sides: over pairs i ≠ j of
    one group, its share is Σ wᵢ(1/pⱼ)1{rⱼ < rᵢ} / Σ wᵢ(1/pⱼ), and v is the mean of the groups'
    shares, weighted by their Σ wᵢ. By sorting, it takes O(n log n). A group with one pick counts ½.
    The share of each group takes a degree of freedom from the interval.

    Args:
        weights, rewards: (n, m).
        references: 1/p, p the probability with which each was picked, (n, m); 0 in empty slots.
        groups: of the picks, (n, m).
        level: of the interval.
    """
    w, r, reference = (part.ravel() for part in (weights, rewards, references))
    influence, g, value, shares = np.zeros_like(w), groups.ravel(), 0.0, 0
    for group in np.unique(g):
        here = np.flatnonzero(g == group)
        one, other = w[here], reference[here]
        of_group, references_of = float(one.sum()), float(other.sum())
        # as a pick and as a reference; its own reward ties with itself
        below = one * (_below(r[here], other) - other / 2)
        above = other * (of_group - _below(r[here], one) - one / 2)
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


def _below(values: Floats, weights: Floats) -> Floats:
    """The weight of all values below each one, and half of that of those equal to it."""
    order = values.argsort()
    ordered, sums = values[order], np.append(0.0, weights[order].cumsum())
    low, high = np.searchsorted(ordered, values), np.searchsorted(ordered, values, "right")
    halves: Floats = (sums[low] + sums[high]) / 2
    return halves


def interval(
    value: float, deviation: float, n: int, ess: float, level: float, fitted: int = 1
) -> Estimate:
    """An estimate with its interval by Student's t, of `ess` − `fitted` degrees of freedom.

    Args:
        value: the estimate.
        deviation: the standard deviation of the influence of a decision.
        n, ess: the number of decisions, and the effective one.
        level: of the interval.
        fitted: how many shares the value is a mean of; further ones make deviations too small.
    """
    from scipy.stats import t  # here, since it takes half a second

    half, freedom = math.inf, ess - fitted
    if freedom > 1e-9:
        wider = math.sqrt((ess - 1) / freedom)
        half = float(t.ppf((1 + level) / 2, freedom)) * wider * deviation / math.sqrt(n)
    return Estimate(value, value - half, value + half, n, ess)
