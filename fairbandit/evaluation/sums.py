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
(1947). See `betting` for anytime intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.agent.inputs import number, numbers
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.betting import STAKES, lower_end
from fairbandit.evaluation.direct import weight_below
from fairbandit.labels import normal
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.tables import rounding_unit

MOST_ROUNDED = 0.05
"""The largest shift of the mean weight that the rounding of propensities may explain."""

WRONG = (
    "propensities are wrong, have too few digits or stand beside other candidates, or rewards are "
    "missing more often for some picks than for others"
)


class Estimate(NamedTuple):
    """A value and its interval from n decisions, whose effective number is `ess`."""

    measure: str
    estimator: str
    value: float
    low: float
    high: float
    n: int
    ess: float


def student(value: float, error: float, freedom: float, level: float) -> tuple[float, float, float]:
    """Returns a value and the ends of its Student's t interval, from its standard error."""
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, (1 + level) / 2)) * error if freedom > 1e-9 else math.inf
    return value, value - half, value + half


def checked_level(level: Any) -> float:
    """Returns a number between 0 and 1; raises a `FairbanditError` for anything else."""
    if not 0 < (value := number(level, "level")) < 1:
        raise FairbanditError(f"level must be above 0 and below 1, got {level}")
    return value


def uniform(log: Log) -> Floats:
    """Returns the probability of each candidate if picks are uniform, (R,)."""
    return np.asarray(((log.picks >= 0).sum(1) / log.sizes)[log.decisions])


def weighted_picks(
    log: Log, chances: Floats
) -> tuple[NDArray[np.bool_], Floats, Floats, Floats, Ints]:
    """Returns the picks of the decisions whose rewards and propensities are known.

    Returns:
        Whether each decision is known; then, each (n, m) and 0 in empty slots, the weights π/p
        (times m over the number of picks, if that is smaller), rewards, 1/p, and groups.
    """
    filled = log.picks >= 0
    rewards = np.where(filled, log.rewards, 0.0)
    references = np.where(filled, 1 / log.propensities, 0.0)
    known = np.asarray(~np.isnan(rewards + references).any(axis=1))
    weights = log.at_picks(chances) * references * (filled.shape[1] / filled.sum(1, keepdims=True))
    groups = log.at_picks(log.candidates.groups)
    return known, weights[known], rewards[known], references[known], groups[known]


class Sums(NamedTuple):
    """Sufficient statistics of a policy's estimates on some decisions.

    Each decision with known rewards and propensities contributes four numbers, which are means over
    its m picks: wr, w, the summand of `dr`, and the weight u of a policy that picks uniformly among
    the candidates with support. The means of w and u are 1 in expectation.

    Attributes:
        n, mean, scatter: the number of these decisions, the mean of the four numbers, (4,), and the
            sum of the outer products of their deviations from it, (4, 4).
        wealth: the log wealth of gamblers with each of `STAKES`, (4, S), who bet that the mean of w
            is above 1 and below 1, and the same for u; 0 if too little is known.
        balance: for each feature, the sum of its values at the picks less its expectation, a bound
            of the sum of its variances, and the largest deviation, (3, d); empty if unknown.
        largest: the largest weight, and the largest of the rewards r and of −r, (3,).
        groups: for each label, the expected number of picks and the number of candidates.
        features: the names of the features.
        unsupported: the summed probability of candidates that the log never picks; NaN if only the
            propensities of picks are known.
        refused: a reason to refuse all weighted estimates, or "".
    """

    n: int
    mean: Floats
    scatter: Floats
    wealth: Floats
    balance: Floats
    largest: Floats
    groups: Mapping[str, Floats]
    features: tuple[str, ...]
    unsupported: float
    refused: str

    @classmethod
    def of(cls, log: Log, chances: Floats, scores: Floats) -> Sums:
        """Returns the sums of decisions, from probabilities π and scores q, (R,) or (n, K)."""
        groups, _, logged, _ = log.candidates
        chances, scores = log.rows(chances), log.rows(scores)
        p, picks, alike = logged, (log.picks >= 0).sum(1), uniform(log)
        unit = rounding_unit(log.propensities)
        off = np.abs(log.propensities - log.at_picks(alike))[log.picks >= 0]
        if p is None and off.max(initial=0.0) <= unit + 1e-12:
            p = alike  # the picks are consistent with it
        if p is not None:
            alike = (p > 0) * (picks / log.sums(p > 0))[log.decisions]
        known, weights, rewards, references, _ = weighted_picks(log, chances)
        _, even, *_ = weighted_picks(log, alike)
        expected = log.sums(chances * scores)[known] / picks[known]
        with np.errstate(all="ignore"):
            robust = expected + (weights * (rewards - log.at_picks(scores)[known])).mean(1)
            four = np.stack([(weights * rewards).mean(1), weights.mean(1), robust, even.mean(1)])
            mean = four.sum(1) / max(len(expected), 1)
            scatter = (four - mean[:, None]) @ (four - mean[:, None]).T
        if not np.isfinite(scatter).all():
            raise FairbanditError("the log has rewards or weights too large to be squared")
        rounding = min(unit * float((even * references).mean() if even.size else 0), MOST_ROUNDED)
        wealth = list[Floats]()
        for pi, weight in ((chances, four[1]), (alike, four[3])):
            bound = np.full(len(log), math.inf)
            if p is not None:
                ratios = np.where(p > 0, pi, 0.0) / np.where(p > 0, p, 1.0)
                bound = np.maximum.reduceat(ratios.clip(min=1.0), log.starts)
            for bet in (weight - 1 - rounding, (1 - weight - rounding) / bound[known]):
                wealth.append(np.log1p(STAKES[:, None] * bet).sum(1))
        extremes = (weights, log.rewards, -log.rewards)
        largest = [np.fmax.reduce(part, axis=None, initial=-math.inf) for part in extremes]
        size, unsupported, refused = len(log.labels), math.nan, ""
        counts = np.bincount(groups, chances, size), np.bincount(groups, minlength=size)
        if logged is not None:
            unsupported = float(chances[logged <= 0].sum())
        if np.isnan(log.propensities[:, 0]).any():
            refused = "the log lacks propensities"
        if log.draws_models:
            refused = "the logged probabilities are conditional on a draw of the model"
        of_label = dict(zip(map(normal, log.labels), np.transpose(counts), strict=True))
        further = np.array(wealth), _balance(log, p, unit), np.array(largest), of_label
        return cls(len(expected), mean, scatter, *further, log.features, unsupported, refused)

    def merged(self, other: Sums) -> Sums:
        """Returns the sums of both together."""
        n, apart = self.n + other.n, other.mean - self.mean
        share, none = other.n / max(n, 1), np.zeros(2)
        labels = {**self.groups, **other.groups}
        balance = self.balance + other.balance
        balance[2] = np.maximum(self.balance[2], other.balance[2])
        return Sums(
            n,
            self.mean + apart * share,
            self.scatter + other.scatter + np.outer(apart, apart) * self.n * share,
            self.wealth + other.wealth,
            balance,
            np.maximum(self.largest, other.largest),
            {key: self.groups.get(key, none) + other.groups.get(key, none) for key in labels},
            self.features,
            self.unsupported + other.unsupported,
            self.refused or other.refused,
        )

    @property
    def diagnostics(self) -> dict[str, float]:
        """(Σw)²/Σw², the largest weight, and the share of unsupported probability, or NaN."""
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
        """The reason to refuse weighted estimates, or "".

        If propensities are right, the means of w and u are 1, and the features of the picks have
        their expected sum. The wealth of a gambler who bets against a mean of 1 exceeds 40,000 in
        at most one of 40,000 logs (Ville). Features exceed Freedman's bound in at most one of
        10,000 logs. If only the propensities of picks are known, the mean of w is below 1 where
        support is lacking; a normal test detects that.
        """
        lacking, n = self.diagnostics["unsupported"], max(self.n, 2)
        if self.refused:
            return self.refused
        if lacking > 1e-9:
            return f"{lacking:.1%} of its probability lacks support in the log, or p rounded to 0"
        won = np.logaddexp.reduce(self.wealth, axis=1) - math.log(len(STAKES)) > math.log(4e4)
        if won[2:].any():
            mean = "the mean of 1/(K·p) over the picks from pools of K"
            return f"{mean} is {self.mean[3]:.3f} and should be 1: {WRONG}"
        if won[:2].any():
            return f"the mean weight is {self.mean[1]:.3f} and should be 1: {WRONG}"
        difference, variance, most = self.balance
        level = math.log(2e4 * max(len(difference), 1))
        over = np.abs(difference) - np.sqrt(2 * level * variance) - level * most / 3
        if over.max(initial=0.0) > 0:
            at = int(over.argmax())
            return (
                f"picks have another mean of {self.features[at]!r} than their probabilities say, "
                f"by {difference[at] / n:.3g}: {WRONG}"
            )
        off = 3.9 * math.sqrt(float(self.scatter[1, 1]) / (n - 1) / n)
        if math.isnan(lacking) and self.n and 1 - self.mean[1] > off + MOST_ROUNDED:
            return (
                f"the mean weight is {self.mean[1]:.3f} ± {off:.3f} and should be 1: about "
                f"{1 - self.mean[1]:.0%} of its probability lacks support in the log"
            )
        return ""

    def rewards(self, level: float, reward_range: Any = None) -> Iterator[Estimate]:
        """Yields the weighted estimates of the reward, unless refused; see `evaluate_sums`."""
        if not self.n or self.refusal:
            return
        (wr, w, robust, _), n, ess = self.mean.tolist(), self.n, self.diagnostics["ess"]
        ways = {"ips": (wr, [1.0, 0.0, 0.0, 0.0])}
        if w > 0:
            ways["snips"] = wr / w, [1 / w, -wr / w**2, 0.0, 0.0]
        ways["dr"] = robust, [0.0, 0.0, 1.0, 0.0]
        for name, (value, gradient) in ways.items():  # by the delta method
            variance = max(float(gradient @ self.scatter @ gradient), 0.0) / max(n - 1, 1)
            interval = student(value, math.sqrt(variance / n), ess - 1, level)
            yield Estimate("reward", name, *interval, n, ess)
        if reward_range is None:
            return
        span, least, most = numbers(reward_range, "reward_range"), -self.largest[2], self.largest[1]
        if span.shape != (2,) or not span[0] <= least <= most <= span[1] or span[0] == span[1]:
            raise FairbanditError(
                "reward_range: expected the least and the greatest possible reward; the log has "
                f"rewards from {least:g} to {most:g}; got {reward_range}"
            )
        # for r in [0, 1], E[w(1 − r)] is 1 − E[wr], since E[w] = 1: each gives one end
        squares, ends = self.scatter / n + np.outer(self.mean, self.mean), list[float]()
        for start, stop in (span.tolist(), span[::-1].tolist()):
            way = np.array([1.0, -start, 0.0, 0.0]) / (stop - start)  # maps the range to [0, 1]
            end = lower_end(n, float(way @ self.mean), float(way @ squares @ way), (1 - level) / 2)
            ends.append(start + (stop - start) * end)
        yield Estimate("reward", "anytime", wr, ends[0], ends[1], n, ess)

    def selections(self) -> Iterator[Estimate]:
        """Yields the selection rate of each group with candidates: picks divided by candidates."""
        for label, (picks, received) in self.groups.items():
            if received:
                rate, n = float(picks / received), int(received)
                yield Estimate(f"selection:{label}", "exact", rate, rate, rate, n, n)


def _balance(log: Log, p: Floats | None, unit: float) -> Floats:
    """Returns `Sums.balance` for the probabilities p, which may be wrong by a rounding unit."""
    if p is None or (x := log.candidates.contexts) is None:
        return np.zeros((3, 0))
    k = log.sums(p)[:, None]
    centred = x - (log.sums(p[:, None] * x) / k)[log.decisions]
    sizes, k = np.abs(centred), k[log.decisions]
    difference = centred[log.picked].sum(0)
    rounding = unit * sizes.sum(0) + 1e-9 * np.abs(x).sum(0)
    rounded = (np.abs(difference) - rounding).clip(min=0) * np.sign(difference)
    squares = (k * p[:, None] * sizes**2).sum(0)
    return np.array([rounded, squares, 2 * (k * sizes).max(0, initial=0.0)])


def merged(parts: Iterable[Mapping[str, Sums]]) -> dict[str, Sums]:
    """Merges the statistics of several parts by policy; without any part, it is an error."""
    total = dict[str, Sums]()
    for part in parts:
        total = {name: total[name].merged(own) if total else own for name, own in part.items()}
    if not total:
        raise FairbanditError("expected at least one decision to judge policies by")
    return total


def win(log: Log, chances: Floats, level: float) -> Estimate:
    """Estimates P(reward of a pick > reward of a random candidate of its group), with half of ties.

    The estimate is a Mann-Whitney statistic with inverse propensities on both sides. Over pairs
    i ≠ j of a group, its share is Σ wᵢ(1/pⱼ)1{rⱼ < rᵢ} / Σ wᵢ(1/pⱼ), and v is the mean of all
    shares, weighted by the groups' Σ wᵢ. Sorting makes it O(n log n). A group with one pick has
    share ½. The interval loses a degree of freedom for each group.
    """
    _, weights, rewards, references, groups = weighted_picks(log, chances)
    w, r, reference = (part.ravel() for part in (weights, rewards, references))
    influence, g, value, shares = np.zeros_like(w), groups.ravel(), 0.0, 0
    for group in np.unique(g):
        here = np.flatnonzero(g == group)
        own, other = w[here], reference[here]
        of_group, references_of = float(own.sum()), float(other.sum())
        # as a pick and as a reference; each reward ties with itself
        below = own * (weight_below(r[here], other, 0.5) - other / 2)
        above = other * (of_group - weight_below(r[here], own, 0.5) - own / 2)
        both = own * (references_of - other) + other * (of_group - own)
        pairs = float(both.sum()) / 2
        known = pairs > 1e-12 * of_group * references_of
        share = float(below.sum()) / pairs if known else 0.5
        value += of_group * share / float(w.sum())
        shares += of_group > 0
        influence[here] = own * share
        if known:
            influence[here] += of_group * (below + above - share * both) / pairs
    influence = (influence - w * value) / w.mean()
    each, influence = weights.mean(1), influence.reshape(weights.shape).mean(1)
    n, ess = len(each), float(each.sum() ** 2 / (each**2).sum())
    wider = max(ess - 1, 0.0) / max(ess - shares, 1e-9)
    error = math.sqrt(float((influence**2).sum()) / max(n - 1, 1) / n * wider)
    return Estimate("win", "snips", *student(value, error, ess - shares, level), n, ess)
