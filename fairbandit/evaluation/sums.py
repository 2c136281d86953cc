"""Importance-weighted estimates of a policy, for all picks and for the picks of each group.

The importance weight of a pick is w = π/p: the probability with which the target policy picks the
candidate, divided by its logged propensity. For n decisions of m picks, with rewards r and a model
q of the mean reward that was trained on other decisions, the estimators are

    ips    v = mean of (1/m) Σⱼ wⱼrⱼ
    snips  v = Σ wr / Σ w
    dr     v = mean of (1/m) (Σₐ πₐq(a) + Σⱼ wⱼ(rⱼ − q(aⱼ)))

With the factor 1{a ∈ g}, the summands estimate the picks of group g. The sums of all groups add up
to the sums of all picks, so that the reward of all picks is Σ_g share_g·reward_g. The denominators
of `ips` and `dr` are known, since a policy's own probabilities are. Intervals use the influence
function of each decision, so that the picks of one decision may depend on each other.

References: Horvitz and Thompson (1952); Swaminathan and Joachims, "The self-normalized estimator
for counterfactual learning", NeurIPS 2015; Dudík, Langford and Li, "Doubly robust policy evaluation
and learning", ICML 2011; Mann and Whitney, "On a test of whether one of two random variables is
stochastically larger than the other", Ann. Math. Stat. 1947 (`win`). See `betting` for anytime
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.evaluation import betting
from fairbandit.evaluation.estimates import Estimate, Moments, Uncertain, by_group, share_of
from fairbandit.logs import Floats, Log
from fairbandit.runs.intervals import SHARE, Span, share_ends
from fairbandit.tables.labels import normal

LOGGED = "logged"  # the name of the policy that made the log, by whose row the others are compared


class GroupSums(NamedTuple):
    """Sufficient statistics of a policy's estimates of one group."""

    pools: Moments  # the share of the decision's picks, the picks, the candidates, and 1
    picked: Moments  # wr, w, the summand of `dr`, the share of the picks, w² and the `pick_scores`
    candidates_in: int  # the number of decisions with candidates of the group
    picked_in: int  # the number of decisions with known picks of the group
    unsupported: float  # the summed probability of candidates that the log never picks, or NaN

    @property
    def picks(self) -> float:
        """The expected number of picks of the group."""
        return float(self.pools.mean[1]) * self.pools.n

    @property
    def candidates(self) -> float:
        """The number of candidates of the group."""
        return float(self.pools.mean[2]) * self.pools.n

    @property
    def unseen(self) -> str:
        """The reason to refuse weighted estimates of the group's picks, or ""."""
        if self.unsupported > 1e-9 * self.picks:
            return f"no support for {self.unsupported / self.picks:.1%} of its picks"
        if self.picked_in < 2:
            return "fewer than two logged picks with a reward"
        (_, weight, _, share), n = self.picked.mean[:4].tolist(), self.picked.n
        if not (weight > 0 and share > 0):
            return "the policy would make none of its logged picks"
        gradient = np.zeros(len(self.picked.mean))
        gradient[[1, 3]] = 1.0, -1.0
        off = 3.9 * math.sqrt(max(float(gradient @ self.picked.scatter @ gradient), 0.0)) / n
        if math.isnan(self.unsupported) and share - weight > off + betting.MOST_ROUNDED * share:
            return f"the mean weight of its picks is {weight / share:.2f} of the right one"
        return ""


def weighted_rewards(
    picked: Moments, n: int, span: Span, limits: Span | None = None
) -> Iterator[tuple[str, Uncertain]]:
    """Yields the weighted estimates of a mean reward, by estimator, from the `picked` of a group.

    The `limits` of possible rewards are for intervals that hold at all times.
    """
    for estimator, above, below in (("ips", 0, 3), ("snips", 0, 1), ("dr", 2, 3)):
        if picked.mean[below] > 0:
            yield estimator, picked.ratio(above, below, 1, n, span, squares=4)
    if limits is not None:
        ends = partial(betting.reward_ends, *picked, limits, float(picked.mean[3]))
        value = float(picked.mean[0] / picked.mean[3])
        yield "anytime", Uncertain(value, ends, n, picked.effective(1))


class Sums(NamedTuple):
    """Sufficient statistics of a policy's estimates on some decisions."""

    picked: Moments  # as for a group, of all picks
    largest: float  # the largest weight
    groups: Mapping[str, GroupSums]  # each group with candidates
    wrong: str  # the reason to take propensities for wrong, or ""
    refusal: str  # the reason to refuse weighted estimates of all picks, or ""

    @classmethod
    def of(cls, log: Log, chances: Floats, scores: Floats) -> Sums:
        """Returns the sums of decisions, from probabilities π and scores q, (R,)."""
        is_known, weights, rewards, references, codes = betting.weighted_picks(log, chances)
        n, slots, decision, model = len(log), log.slots, log.decisions, chances * scores
        pick_scores = () if log.pick_scores is None else log.pick_scores[is_known].T

        def picked(
            is_member: NDArray[np.bool_] | float, expected: NDArray[Any], share: Floats
        ) -> Moments:
            residuals = rewards - log.at_picks(scores)[is_known]
            summands = weights * rewards, weights, weights * residuals
            wr, w, corrected = ((part * is_member).mean(1) for part in summands)
            robust = (expected / slots)[is_known] + corrected
            return Moments.of(np.stack([wr, w, robust, share[is_known], w**2, *pick_scores]))

        with np.errstate(all="ignore"):
            whole = picked(1.0, log.sums(model), np.ones(n))
        betting.check_squares(whole.scatter)
        lacking, groups = np.full(len(chances), math.nan), dict[str, GroupSums]()
        if log.probabilities is not None:
            lacking = chances * (log.probabilities <= 0)
        for code, label in enumerate(log.labels):
            rows = np.flatnonzero(log.groups == code)
            if not len(rows):
                continue
            candidates = np.bincount(decision[rows], minlength=n)
            picks, expected = (np.bincount(decision[rows], of[rows], n) for of in (chances, model))
            is_member = (codes == code) & (references > 0)
            groups[normal(label)] = GroupSums(
                Moments.of(np.stack([picks / slots, picks, candidates, np.ones(n)])),
                picked(is_member, expected, picks / slots),
                int((candidates > 0).sum()),
                int(is_member.any(1).sum()),
                float(lacking[rows].sum()),
            )
        largest = float(np.fmax.reduce(weights, axis=None, initial=0.0))
        return cls(whole, largest, groups, *_refusals(log, chances, whole, _unsupported(groups)))

    @classmethod
    def logged(cls, log: Log, scores: Floats) -> Sums:
        """Returns the sums of the logged picks themselves: all weights are 1, with any log."""
        made, ones = log.picked.astype(np.float64), np.ones(log.picks.shape)
        certain = replace(
            log, propensities=ones, probabilities=made, draws_models=False, pick_scores=None
        )
        return cls.of(certain, made, scores)

    @property
    def diagnostics(self) -> dict[str, float]:
        """(Σw)²/Σw², the largest weight, and the share of unsupported probability, or NaN."""
        unsupported = _unsupported(self.groups)
        ess = self.picked.effective(1)
        return {"ess": ess, "largest_weight": self.largest, "unsupported": unsupported}

    @property
    def unseen(self) -> dict[str, str]:
        """The groups whose weighted estimates are refused, each with the reason."""
        reasons = {label: self.wrong or group.unseen for label, group in self.groups.items()}
        return {label: reason for label, reason in reasons.items() if reason}

    def estimates(self, span: Span, limits: Span | None = None) -> Iterator[Estimate]:
        """Yields `weighted_rewards`, unless refused, and the groups' shares and selection rates."""
        if self.picked.n and not self.refusal:
            for name, value in weighted_rewards(self.picked, self.picked.n, span, limits):
                yield "reward", name, value
        refused, by_measure = self.unseen, dict[tuple[str, str], dict[str, Uncertain]]()
        for label, group in self.groups.items():
            values = {("share", "exact"): share_of(group.pools, 0, 3, group.pools.n)}
            values["selection", "exact"] = share_of(group.pools, 1, 2, group.candidates_in)
            if group.picks > 0 and label not in refused:
                rewards = weighted_rewards(group.picked, group.picked_in, span, limits)
                values |= {("reward", name): value for name, value in rewards}
            for key, value in values.items():
                by_measure.setdefault(key, {})[label] = value
        picked = sum(group.picks > 0 for group in self.groups.values())
        for (measure, estimator), groups in by_measure.items():
            whole = measure != "reward" or len(groups) == picked
            yield from by_group(measure, estimator, groups, whole=whole)


def _unsupported(groups: Mapping[str, GroupSums]) -> float:
    """Returns the share of a policy's probability that lacks support, or NaN."""
    lacking = sum(group.unsupported for group in groups.values())
    return lacking / sum(group.picks for group in groups.values())


def _refusals(log: Log, chances: Floats, picked: Moments, lacking: float) -> tuple[str, str]:
    """Returns the reasons to take propensities for wrong, and to refuse weighted estimates.

    If only the propensities of picks are known, the mean of w is below 1 where support is lacking;
    a normal test detects that.
    """
    p, rounding, refused, uneven, unbalanced = betting.tested(log)
    above, below = betting.rejected(log, chances, p, rounding)
    weight, n = float(picked.mean[1]), max(picked.n, 2)
    wrong = refused or uneven
    if not wrong and (above or (below and lacking <= 1e-9)):
        wrong = f"the mean weight is {weight:.3f} and should be 1: {betting.WRONG}"
    wrong = wrong or unbalanced
    if lacking > 1e-9 and not refused:
        share = f"{lacking:.1%} of its probability lacks support in the log, or p rounded to 0"
        return wrong, share
    off = 3.9 * math.sqrt(float(picked.scatter[1, 1]) / (n - 1) / n)
    unseen = math.isnan(lacking) and picked.n and (below or 1 - weight > off + betting.MOST_ROUNDED)
    if wrong or not unseen:
        return wrong, wrong
    return "", (
        f"the mean weight is {weight:.3f} ± {off:.3f} and should be 1: about {1 - weight:.0%} of "
        "its probability lacks support in the log"
    )


def weight_below(values: Floats, weights: Floats, ties: float = 1.0) -> Floats:
    """Returns the weight strictly below each value, plus `ties` × the weight of equal values."""
    order, result = values.argsort(), np.empty_like(values)
    ordered, sums = values[order], np.append(0.0, weights[order].cumsum())
    below, upto = (sums[np.searchsorted(ordered, ordered, side)] for side in ("left", "right"))
    result[order] = below + ties * (upto - below)
    return result


def wins(log: Log, chances: Floats) -> tuple[Uncertain, dict[str, Uncertain]]:
    """Estimates P(reward of a pick > reward of a random candidate of its group), with half of ties.

    The estimate is a Mann-Whitney statistic with inverse propensities on both sides. Over pairs
    i ≠ j of a group, its share is Σ wᵢ(1/pⱼ)1{rⱼ < rᵢ} / Σ wᵢ(1/pⱼ), and v is the mean of all
    shares, weighted by the groups' Σ wᵢ. Sorting makes it O(n log n). A group with one pick has
    share ½.

    The weight of a decision in v is wᵢ/Σw as a pick, plus (1/pᵢ)/Σ(1/p) of its group as a
    reference. The effective number of these weights gives the interval (`share_ends`), and the
    effective number of their squares the degrees of freedom, less 1 for each group.

    Groups with fewer than two picks have no share in the second result.
    """
    is_known, weights, rewards, references, groups = betting.weighted_picks(log, chances)
    scores = np.zeros((len(weights), 0)) if log.pick_scores is None else log.pick_scores[is_known]
    w, r, reference = (part.ravel() for part in (weights, rewards, references))
    influence, moved, g, value, shares = np.zeros_like(w), np.zeros_like(w), groups.ravel(), 0.0, 0
    n, of_groups = len(weights), dict[str, Uncertain]()
    for group in np.unique(g):
        here = np.flatnonzero(g == group)
        weight, inverse = w[here], reference[here]
        total, total_inverse = float(weight.sum()), float(inverse.sum())
        # as a pick and as a reference; each reward ties with itself
        below = weight * (weight_below(r[here], inverse, 0.5) - inverse / 2)
        above = inverse * (total - weight_below(r[here], weight, 0.5) - weight / 2)
        pair_weights = weight * (total_inverse - inverse) + inverse * (total - weight)
        pairs = float(pair_weights.sum()) / 2
        comparable = pairs > 1e-12 * total * total_inverse
        share = float(below.sum()) / pairs if comparable else 0.5
        value += total * share / float(w.sum())
        shares += total > 0
        influence[here] = weight * share
        if comparable:
            changes = (below + above - share * pair_weights) / pairs
            rows, label = here // weights.shape[1], normal(log.labels[group])
            influence[here] += total * changes
            moved[here] = weight + total * inverse / total_inverse
            by_row = np.array([np.bincount(rows, of, n) for of in (changes, moved[here], weight)])
            number = len(np.unique(rows[inverse > 0]))
            of_groups[label] = _uncertain(share, by_row, scores, number)
    by_row = np.stack([(influence - w * value) / w.sum(), moved, w])
    by_row = by_row.reshape(3, *weights.shape).sum(2)
    return _uncertain(value, by_row, scores, n, shares), of_groups


def _uncertain(value: float, by_row: Floats, scores: Floats, n: int, groups: int = 1) -> Uncertain:
    """Returns a share from the influence of each decision, how far it moves it, and its weight.

    `scores` are the scores of estimated propensities, which explain a part of the influence.
    """
    influence, moved, weights = by_row
    ess, freedom = _effective(moved), _effective(moved**2) - groups
    squares = float((influence**2).sum()) - float(((influence @ scores) ** 2).sum())
    variance = max(squares, 0.0) * ess / max(ess - groups, 1e-9)
    ends = partial(share_ends, value, variance, freedom, ess, SHARE)
    return Uncertain(value, ends, n, _effective(weights))


def _effective(weights: Floats) -> float:
    total = float((weights**2).sum())
    return float(weights.sum()) ** 2 / total if total else 0.0
