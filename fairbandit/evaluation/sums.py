"""Importance-weighted estimates of a policy.

The importance weight of a pick is w = π/p: the probability with which the target policy picks the
candidate, divided by its logged propensity. For n decisions of m picks, with rewards r and a model
q of the mean reward that was trained on other decisions, the estimators are

    ips    v = mean of (1/m) Σⱼ wⱼrⱼ
    snips  v = Σ wr / Σ w
    dr     v = mean of (1/m) (Σₐ πₐq(a) + Σⱼ wⱼ(rⱼ − q(aⱼ)))

They are functions of sums over decisions, which can be merged. Intervals use the influence function
of each decision, so that the picks of one decision may depend on each other.

References: Horvitz and Thompson (1952); Swaminathan and Joachims, "The self-normalized estimator
for counterfactual learning", NeurIPS 2015; Dudík, Langford and Li, "Doubly robust policy evaluation
and learning", ICML 2011; Chan, Golub and LeVeque (1979), for sums of parts; Mann and Whitney
(1947); Fan, Grama and Liu, "Exponential inequalities for martingales with applications", EJP 2015;
Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024;
Karampatziakis et al., "Off-policy confidence sequences", ICML 2021.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.agent.inputs import number, numbers
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import weight_below
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.tables import rounding_unit

BETS, CENTRES = np.meshgrid(np.geomspace(1e-4, 0.5, 24), np.linspace(0, 1, 5))
"""The bets λ and the centres c of `lower_end`."""


WEIGHT = "the mean weight"

MOST_ROUNDED = 0.02
"""The rounding of propensities may move the mean weight by this much; more is refused."""


class Estimate(NamedTuple):
    """A value and its interval, which rest on n decisions, of the effective number `ess`."""

    measure: str
    estimator: str
    value: float
    low: float
    high: float
    n: int
    ess: float


def student(value: float, error: float, freedom: float, level: float) -> tuple[float, float, float]:
    """A value and the ends of its interval by Student's t, of a standard error."""
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, (1 + level) / 2)) * error if freedom > 1e-9 else math.inf
    return value, value - half, value + half


def checked_level(level: Any) -> float:
    """A number between 0 and 1; anything else raises `FairbanditError`."""
    if not 0 < (value := number(level, "level")) < 1:
        raise FairbanditError(f"level must be above 0 and below 1, got {level}")
    return value


def weighted_picks(
    log: Log, chances: Floats
) -> tuple[NDArray[np.bool_], Floats, Floats, Floats, Ints]:
    """The picks of the decisions whose rewards and propensities are known.

    Returns:
        Which decisions these are; then, each (n, m) and 0 in empty slots, the weights π/p, times m
        over the number of picks where there are fewer, rewards, 1/p, and the groups' numbers.
    """
    filled = log.picks >= 0
    rewards = np.where(filled, log.rewards, 0.0)
    references = np.where(filled, 1 / log.propensities, 0.0)
    known = np.asarray(~np.isnan(rewards + references).any(axis=1))
    weights = log.at_picks(chances) * references * (filled.shape[1] / filled.sum(1, keepdims=True))
    groups = log.at_picks(log.groups)
    return known, weights[known], rewards[known], references[known], groups[known]


class Sums(NamedTuple):
    """Sufficient statistics of a policy's estimates on some decisions.

    Each decision whose rewards and propensities are known contributes four numbers, which are
    means over its m picks: wr, w, the summand of `dr`, and the weight u of a policy that picks
    among all candidates with support alike. The means of w and u are 1 in expectation.

    Attributes:
        n, mean, scatter: the number of such decisions, the mean of the four numbers, (4,), and the
            sum of the outer products of their deviations from it, (4, 4).
        variance: the sum over decisions of the largest variance that w and u have if propensities
            are right, (2,); NaN where only the propensities of picks are known.
        largest: the largest weight, the largest of the rewards r and of −r, and the largest values
            that w and u can have, (5,).
        rounding: the sum over decisions of the error of u that the rounding of propensities makes.
        groups: for each label, the expected number of picks and the number of candidates.
        unsupported: the summed probability of candidates that the log never picks; NaN where only
            the propensities of picks are known.
        refused: the reason why weighted estimates are refused whatever the numbers, or "".
    """

    n: int
    mean: Floats
    scatter: Floats
    variance: Floats
    largest: Floats
    rounding: float
    groups: Mapping[Hashable, Floats]
    unsupported: float
    refused: str

    @classmethod
    def of(cls, log: Log, chances: Floats, scores: Floats) -> Sums:
        """The sums of some decisions, of the probabilities π and the scores q, (n, K).

        Raises:
            FairbanditError: products that are beyond double precision.
        """
        here, picks, p = log.groups >= 0, (log.picks >= 0).sum(1), log.probabilities
        supported = here if p is None else p > 0
        alike = supported * (picks / supported.sum(1))[:, None]
        known, weights, rewards, references, _ = weighted_picks(log, chances)
        _, even, *_ = weighted_picks(log, alike)
        expected = (chances * scores).sum(1)[known] / picks[known]
        with np.errstate(all="ignore"):
            robust = expected + (weights * (rewards - log.at_picks(scores)[known])).mean(1)
            four = np.stack([(weights * rewards).mean(1), weights.mean(1), robust, even.mean(1)])
            mean = four.sum(1) / max(len(expected), 1)
            scatter = (four - mean[:, None]) @ (four - mean[:, None]).T
        if not np.isfinite(scatter).all():
            raise FairbanditError("the log has rewards or weights too large to be squared")
        variance, reach = np.full(2, math.nan), [math.nan, math.nan]
        if p is not None:
            ratios = [
                np.where(supported, own, 0.0) / np.where(supported, p, 1.0)
                for own in (chances, alike)
            ]
            # E[w²] is at most the mean over the picks of E[(π/p)²]
            squares = [
                (own * ratio).sum(1) / picks
                for own, ratio in zip((chances, alike), ratios, strict=True)
            ]
            variance = np.array([(one - 1)[known].clip(min=0).sum() for one in squares])
            reach = [float(one[known].max(initial=0.0)) for one in ratios]
        extremes = (weights, log.rewards, -log.rewards)
        largest = [np.fmax.reduce(one, axis=None, initial=-math.inf) for one in extremes]
        rounding = float((even * references).mean(1).sum()) * rounding_unit(log.propensities)
        unsupported, refused = math.nan, ""
        groups, size = log.groups[here], len(log.labels)
        counts = np.bincount(groups, chances[here], size), np.bincount(groups, minlength=size)
        if p is not None:
            unsupported = float(chances[p <= 0].sum())
        if np.isnan(log.propensities[:, 0]).any():
            refused = "the log has no propensities"
        if log.draws_models:
            refused = "the logged probabilities are given a draw of the model"
        of_label = dict(zip(log.labels, np.transpose(counts), strict=True))
        limits = np.array([*largest, *reach])
        own = (len(expected), mean, scatter, variance, limits, rounding)
        return cls(*own, of_label, unsupported, refused)

    def merged(self, other: Sums) -> Sums:
        """The sums of both together."""
        n, apart = self.n + other.n, other.mean - self.mean
        share, none = other.n / max(n, 1), np.zeros(2)
        labels = {**self.groups, **other.groups}
        return Sums(
            n,
            self.mean + apart * share,
            self.scatter + other.scatter + np.outer(apart, apart) * self.n * share,
            self.variance + other.variance,
            np.maximum(self.largest, other.largest),
            self.rounding + other.rounding,
            {one: self.groups.get(one, none) + other.groups.get(one, none) for one in labels},
            self.unsupported + other.unsupported,
            self.refused or other.refused,
        )

    @property
    def diagnostics(self) -> dict[str, float]:
        """(Σw)²/Σw², the largest weight, and the share of probability without support, or NaN."""
        mean = float(self.mean[1])
        square = float(self.scatter[1, 1]) / max(self.n, 1) + mean**2
        lacking = self.unsupported / float(sum(picks for picks, _ in self.groups.values()))
        return {
            "ess": self.n * mean**2 / square if square else 0.0,
            "largest_weight": max(float(self.largest[0]), 0.0),
            "unsupported": lacking,
        }

    @property
    def refusal(self) -> str:
        """The reason why weighted estimates are refused, or "".

        If propensities are right, the means of w and u are 1. Where the probabilities of all
        candidates are known, so is the largest variance, and a mean is farther from 1 than
        Freedman's inequality allows in at most one of 10,000 logs. Otherwise a normal test of this
        level takes its place, and u is at most 1, since some candidates may have no support.
        """
        lacking, n = self.diagnostics["unsupported"], max(self.n, 2)
        if self.refused:
            return self.refused
        if lacking > 1e-9:
            return f"{lacking:.1%} of its probability has no support in the log"
        if not self.n:
            return ""
        level, rounding = math.log(2e4), min(self.rounding / n, MOST_ROUNDED)
        for at, name in ((3, "the mean of 1/(K·p) over the picks from pools of K"), (1, WEIGHT)):
            mean, off = float(self.mean[at]), math.sqrt(float(self.scatter[at, at]) / (n - 1) / n)
            limit, known = 3.9 * off, not math.isnan(lacking)
            if known:
                place = at // 2
                limit = math.sqrt(2 * level * float(self.variance[place])) / n
                limit += level * float(self.largest[3 + place]) / 3 / n
            limit += rounding + 1e-9
            found = f"{name} is {mean:.3f} and should be 1 ± {limit:.3f}"
            if mean - 1 > limit or (1 - mean > limit and known):
                return (
                    f"{found}: propensities are wrong, or stand beside other candidates, or "
                    "rewards are missing more often for some picks than for others"
                )
            if 1 - mean > limit and at == 1:
                return (
                    f"{found}: propensities are wrong, or about {1 - mean:.0%} of its probability "
                    "has no support in the log"
                )
        return ""

    def rewards(self, level: float, reward_range: Any = None) -> Iterator[Estimate]:
        """The weighted estimates of the reward, unless they are refused; see `evaluate_sums`."""
        if not self.n or self.refusal:
            return
        (wr, w, robust, _), n, ess = self.mean.tolist(), self.n, self.diagnostics["ess"]
        ways = {"ips": (wr, [1.0, 0.0, 0.0, 0.0])}
        if w > 0:
            ways["snips"] = wr / w, [1 / w, -wr / w**2, 0.0, 0.0]
        ways["dr"] = robust, [0.0, 0.0, 1.0, 0.0]
        for name, (value, gradient) in ways.items():  # by the delta method
            variance = max(float(gradient @ self.scatter @ gradient), 0.0) / max(n - 1, 1)
            found = student(value, math.sqrt(variance / n), ess - 1, level)
            yield Estimate("reward", name, *found, n, ess)
        if reward_range is None:
            return
        given, most, least = (
            numbers(reward_range, "reward_range"),
            self.largest[1],
            -self.largest[2],
        )
        if given.shape != (2,) or not given[0] <= least <= most <= given[1] or given[0] == given[1]:
            raise FairbanditError(
                "reward_range: expected the least and the greatest possible reward; the log has "
                f"rewards from {least:g} to {most:g}; got {reward_range}"
            )
        # for r in [0, 1], E[w(1 − r)] is 1 − E[wr], since E[w] = 1: each gives one end
        squares, ends = self.scatter / n + np.outer(self.mean, self.mean), list[float]()
        for one, other in (given.tolist(), given[::-1].tolist()):
            way = np.array([1.0, -one, 0.0, 0.0]) / (other - one)  # of (r − one)/(other − one)
            end = lower_end(n, float(way @ self.mean), float(way @ squares @ way), (1 - level) / 2)
            ends.append(one + (other - one) * end)
        yield Estimate("reward", "anytime", wr, ends[0], ends[1], n, ess)

    def selections(self) -> Iterator[Estimate]:
        """The selection rate of each group that has candidates: picks divided by candidates."""
        for label, (picks, received) in self.groups.items():
            if received:
                rate, n = float(picks / received), int(received)
                yield Estimate(f"selection:{label}", "exact", rate, rate, rate, n, n)


def merged(parts: Iterable[Mapping[str, Sums]]) -> dict[str, Sums]:
    """Merges the statistics of several parts, by policy.

    Raises:
        FairbanditError: there is no part.
    """
    whole = dict[str, Sums]()
    for part in parts:
        whole = {name: whole[name].merged(one) if whole else one for name, one in part.items()}
    if not whole:
        raise FairbanditError("no decisions are left that could judge")
    return whole


def win(log: Log, chances: Floats, level: float) -> Estimate:
    """P(reward of a pick > reward of a random candidate of its group), ties counting one half.

    A Mann-Whitney statistic, weighted by inverse propensities on both sides: over pairs i ≠ j of
    one group, its share is Σ wᵢ(1/pⱼ)1{rⱼ < rᵢ} / Σ wᵢ(1/pⱼ), and v is the mean of the groups'
    shares, weighted by their Σ wᵢ. By sorting, it takes O(n log n). A group with one pick counts ½.
    The share of each group takes a degree of freedom from the interval.
    """
    _, weights, rewards, references, groups = weighted_picks(log, chances)
    w, r, reference = (part.ravel() for part in (weights, rewards, references))
    influence, g, value, shares = np.zeros_like(w), groups.ravel(), 0.0, 0
    for group in np.unique(g):
        here = np.flatnonzero(g == group)
        one, other = w[here], reference[here]
        of_group, references_of = float(one.sum()), float(other.sum())
        # as a pick and as a reference; its own reward ties with itself
        below = one * (weight_below(r[here], other, 0.5) - other / 2)
        above = other * (of_group - weight_below(r[here], one, 0.5) - one / 2)
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
    n, ess = len(each), float(each.sum() ** 2 / (each**2).sum())
    wider = max(ess - 1, 0.0) / max(ess - shares, 1e-9)
    error = math.sqrt(float((one**2).sum()) / max(n - 1, 1) / n * wider)
    return Estimate("win", "snips", *student(value, error, ess - shares, level), n, ess)


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
