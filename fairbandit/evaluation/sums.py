"""Importance-weighted estimates of a policy.

The importance weight of a pick is w = π/p: the probability with which the target policy picks the
candidate, divided by its logged propensity. For n decisions of m picks, with rewards r and a model
q of the mean reward that was trained on other decisions, the estimators are

    ips    v = mean of (1/m) Σⱼ wⱼrⱼ
    snips  v = Σ wr / Σ w
    dr     v = mean of (1/m) (Σₐ πₐq(a) + Σⱼ wⱼ(rⱼ − q(aⱼ)))

They are functions of sums over decisions. Intervals use the influence function
of each decision, so that the picks of one decision may depend on each other.

References: Horvitz and Thompson (1952); Swaminathan and Joachims, "The self-normalized estimator
for counterfactual learning", NeurIPS 2015; Dudík, Langford and Li, "Doubly robust policy evaluation
and learning", ICML 2011. See `betting` for anytime intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.agent.inputs import numbers
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.balance import Balance, balance, imbalance
from fairbandit.evaluation.betting import STAKES
from fairbandit.evaluation.estimates import Estimate, Moments, Uncertain, by_group
from fairbandit.evaluation.groups import MOST_ROUNDED, GroupSums, group_sums, weighted_rewards
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.tables import rounding_unit
from fairbandit.runs.intervals import UNBOUNDED, Span

LOGGED = "logged"
"""The name of the policy that made the log, by whose row the others are compared."""

WRONG = (
    "propensities are wrong, have too few digits or stand beside other candidates, or rewards are "
    "missing more often for some picks than for others"
)


def uniform(log: Log) -> Floats:
    """Returns the probability of each candidate if picks are uniform, (R,)."""
    return np.asarray((log.slots / log.sizes)[log.decisions])


def weighted_picks(
    log: Log, chances: Floats
) -> tuple[NDArray[np.bool_], Floats, Floats, Floats, Ints]:
    """Returns whether the rewards and propensities of each decision are known, and their picks.

    These are, each (n, m) and 0 in empty slots, the weights π/p (times m over the number of picks,
    if that is smaller), rewards, 1/p, and groups.
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

    Each decision with known rewards and propensities contributes six numbers: the means over its m
    picks of wr, of w, of the summand of `dr`, and of the weight u of a policy that picks uniformly
    among the candidates with support, which is last; and before it 1, and the square of the mean of
    w. The means of w and u are 1 in expectation.

    Attributes:
        n, mean, scatter: the number of these decisions, the mean of the six numbers and of the q
            `pick_scores`, (6 + q,), and the sum of the outer products of their deviations from it.
        wealth: the log wealth of gamblers with each of `STAKES`, (4, S), who bet that the mean of w
            is above 1 and below 1, and the same for u; 0 if too little is known.
        balance: for each tested function of a candidate, the sums by which `imbalance` decides
            whether the picks fit the probabilities; empty if these are unknown.
        largest: the largest weight, and the largest of the rewards r and of −r, (3,).
        groups: the statistics of each group with candidates, by label.
        refused: a reason to refuse all weighted estimates, or "".
    """

    n: int
    mean: Floats
    scatter: Floats
    wealth: Floats
    balance: Balance
    largest: Floats
    groups: Mapping[str, GroupSums]
    refused: str

    @classmethod
    def of(cls, log: Log, chances: Floats, scores: Floats) -> Sums:
        """Returns the sums of decisions, from probabilities π and scores q, (R,)."""
        p, slots, alike = log.probabilities, log.slots, uniform(log)
        unit = rounding_unit(log.propensities)
        off = np.abs(log.propensities - log.at_picks(alike))[log.picks >= 0]
        if p is None and off.max(initial=0.0) <= unit + 1e-12:
            p = alike  # the picks are consistent with it
        if p is not None:
            alike = (p > 0) * (slots / log.sums(p > 0))[log.decisions]
        known, weights, rewards, references, _ = found = weighted_picks(log, chances)
        _, even, *_ = weighted_picks(log, alike)
        expected = log.sums(chances * scores)[known] / slots[known]
        with np.errstate(all="ignore"):
            robust = expected + (weights * (rewards - log.at_picks(scores)[known])).mean(1)
            w, u = weights.mean(1), even.mean(1)
            rows = [(weights * rewards).mean(1), w, robust, np.ones(len(w)), w**2, u]
            rows += [] if log.pick_scores is None else [*log.pick_scores[known].T]
            moments = Moments.of(np.stack(rows))
        if not np.isfinite(moments.scatter).all():
            raise FairbanditError("the log has rewards or weights too large to be squared")
        rounding = min(unit * float((even * references).mean() if even.size else 0), MOST_ROUNDED)
        wealth = list[Floats]()
        for pi, weight in ((chances, w), (alike, u)):
            bound = np.full(len(log), math.inf)
            if p is not None:
                ratios = np.where(p > 0, pi, 0.0) / np.where(p > 0, p, 1.0)
                bound = np.maximum.reduceat(ratios.clip(min=1.0), log.starts)
            for bet in (weight - 1 - rounding, (1 - weight - rounding) / bound[known]):
                wealth.append(np.log1p(STAKES[:, None] * bet).sum(1))
        extremes = (weights, log.rewards, -log.rewards)
        largest = [np.fmax.reduce(part, axis=None, initial=-math.inf) for part in extremes]
        refused = "the log lacks propensities" if np.isnan(log.propensities[:, 0]).any() else ""
        if log.draws_models:
            refused = "the logged probabilities are conditional on a draw of the model"
        further = np.array(wealth), balance(log, p, unit), np.array(largest)
        groups = group_sums(log, chances, scores, found)
        return cls(*moments, *further, groups, refused)

    @classmethod
    def logged(cls, log: Log, scores: Floats) -> Sums:
        """Returns the sums of the logged picks themselves: all weights are 1, with any log.

        `ips`, `snips` and `dr` are then the mean of the known rewards.
        """
        made, ones = log.picked.astype(np.float64), np.ones(log.picks.shape)
        certain = replace(
            log, propensities=ones, probabilities=made, draws_models=False, pick_scores=None
        )
        return cls.of(certain, made, scores)

    @property
    def diagnostics(self) -> dict[str, float]:
        """(Σw)²/Σw², the largest weight, and the share of unsupported probability, or NaN."""
        groups = self.groups.values()
        return {
            "ess": Moments(*self[:3]).effective(1),
            "largest_weight": max(float(self.largest[0]), 0.0),
            "unsupported": sum(own.unsupported for own in groups)
            / sum(own.picks for own in groups),
        }

    @property
    def wrong(self) -> str:
        """The reason to take propensities for wrong, or "".

        If propensities are right, the means of w and u are 1, and functions of the picks have their
        expected sums. The wealth of a gambler who bets against a mean of 1 exceeds 40,000 in at
        most one of 40,000 logs (Ville), and `imbalance` rejects at most one of 10,000 logs.
        """
        if self.refused:
            return self.refused
        above, below, *uniform = self._won
        if any(uniform):
            mean = "the mean of 1/(K·p) over the picks from pools of K"
            return f"{mean} is {self.mean[5]:.3f} and should be 1: {WRONG}"
        if above or (below and self.diagnostics["unsupported"] <= 1e-9):
            return f"the mean weight is {self.mean[1]:.3f} and should be 1: {WRONG}"
        if found := imbalance(self.balance):
            name, difference = found
            return (
                f"picks have another mean of {name} than their probabilities say, "
                f"by {difference / max(self.n, 2):.3g}: {WRONG}"
            )
        return ""

    @property
    def _won(self) -> Any:
        return np.logaddexp.reduce(self.wealth, axis=1) - math.log(len(STAKES)) > math.log(4e4)

    @property
    def refusal(self) -> str:
        """The reason to refuse weighted estimates, or "".

        It is a lack of support, or a reason to take propensities for wrong. If only the
        propensities of picks are known, the mean of w is below 1 where support is lacking; a normal
        test detects that.
        """
        lacking, n = self.diagnostics["unsupported"], max(self.n, 2)
        if lacking > 1e-9 and not self.refused:
            return f"{lacking:.1%} of its probability lacks support in the log, or p rounded to 0"
        if (reason := self.wrong) or not math.isnan(lacking) or not self.n:
            return reason
        off = 3.9 * math.sqrt(float(self.scatter[1, 1]) / (n - 1) / n)
        if self._won[1] or 1 - self.mean[1] > off + MOST_ROUNDED:
            return (
                f"the mean weight is {self.mean[1]:.3f} ± {off:.3f} and should be 1: about "
                f"{1 - self.mean[1]:.0%} of its probability lacks support in the log"
            )
        return ""

    @property
    def unseen(self) -> dict[str, str]:
        """The groups whose weighted estimates are refused, each with the reason."""
        reasons = {label: self.wrong or own.unseen for label, own in self.groups.items()}
        return {label: reason for label, reason in reasons.items() if reason}

    def rewards(
        self, confidence: float, reward_range: Any = None, *, anytime: bool = False
    ) -> Iterator[Estimate]:
        """Yields the weighted estimates of the reward, unless refused; see `evaluate_sums`."""
        if not self.n or self.refusal:
            return
        for name, value in self._weighted(Moments(*self[:3]), self.n, reward_range, anytime, 6):
            yield value.at(confidence, "reward", name)

    def _weighted(
        self, picked: Moments, n: int, reward_range: Any, anytime: bool, scores: int
    ) -> Iterator[tuple[str, Uncertain]]:
        limits = self._limits(reward_range) if anytime else None
        return weighted_rewards(picked, n, self.span(reward_range), limits, scores)

    @property
    def seen(self) -> Span:
        """The least and the greatest known reward."""
        return -float(self.largest[2]), float(self.largest[1])

    def span(self, reward_range: Any = None) -> Span:
        """Returns the least and the greatest known reward.

        If all known rewards are equal, it returns the range that is given, or else an infinite one.
        """
        limits = UNBOUNDED if reward_range is None else self._limits(reward_range)
        return self.seen if self.seen[0] < self.seen[1] else limits

    def _limits(self, reward_range: Any) -> Span:
        limits, (least, most) = numbers(reward_range, "reward_range"), self.seen
        if limits.shape != (2,) or not limits[0] <= least <= most <= limits[1] > limits[0]:
            raise FairbanditError(
                "reward_range: expected the least and the greatest possible reward; the log has "
                f"rewards from {least:g} to {most:g}; got {reward_range}"
            )
        return float(limits[0]), float(limits[1])

    def of_groups(
        self, confidence: float, reward_range: Any = None, *, anytime: bool = False
    ) -> Iterator[Estimate]:
        """Yields shares of the picks, selection rates and weighted rewards of the groups."""
        known = self.unseen
        found = dict[tuple[str, str], dict[str, Uncertain]]()
        for label, own in self.groups.items():
            for measure, value in own.exact():
                found.setdefault((measure, "exact"), {})[label] = value
            if own.picks > 0 and label not in known:
                n = int(own.counts[1])
                for name, value in self._weighted(own.picked, n, reward_range, anytime, 5):
                    found.setdefault(("reward", name), {})[label] = value
        picked = sum(own.picks > 0 for own in self.groups.values())
        for (measure, estimator), groups in found.items():
            whole = measure != "reward" or len(groups) == picked
            yield from by_group(measure, estimator, groups, confidence, whole=whole)
