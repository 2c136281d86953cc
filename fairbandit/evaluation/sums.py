"""Importance-weighted estimates of a policy from sufficient statistics, which can be merged.

The importance weight of a pick is w = π/p: the probability with which the target policy picks the
candidate, divided by its logged propensity. For n decisions of m picks, with rewards r and a model
q of the mean reward that was trained on other decisions, the estimators are

    ips    v = mean of (1/m) Σⱼ wⱼrⱼ
    snips  v = Σ wr / Σ w
    dr     v = mean of (1/m) (Σₐ πₐq(a) + Σⱼ wⱼ(rⱼ − q(aⱼ)))

Intervals are normal and use the influence function of each decision, so that the picks of one
decision may depend on each other.

References: Horvitz and Thompson (1952); Swaminathan and Joachims, "The self-normalized estimator
for counterfactual learning", NeurIPS 2015; Dudík, Langford and Li, "Doubly robust policy evaluation
and learning", ICML 2011; Chan, Golub and LeVeque (1979), for sums of parts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.agent.inputs import number
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import LinearModel
from fairbandit.evaluation.estimates import Interval, interval, lower_end
from fairbandit.logs import Floats, Ints, Log

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("policy", "measure", "estimator", "value", "low", "high", "n", "ess")
"""The columns of an evaluation."""

ASSUMPTIONS = {
    "ips, snips, dr, win": "propensities are right and positive where the policy's are; intervals "
    "are normal in the number of effective decisions (ess)",
    "direct": "mean rewards are linear in the features, logged picks span the contexts and depend "
    "on nothing but what is logged; intervals are bootstrapped over decisions",
    "anytime": "propensities as above, rewards in the range given; holds at all times at once",
    "exact": "the pools are those of the log",
}
"""The assumptions of each estimator."""

Found = tuple[str, str, Interval]
"""A measure, an estimator and its interval."""


def weighted_picks(
    log: Log, chances: Floats
) -> tuple[NDArray[np.bool_], Floats, Floats, Floats, Ints]:
    """The picks of the decisions whose rewards and propensities are known.

    Returns:
        Which decisions these are; then, each (n, m) and 0 in empty slots, the weights π/p, times m
        over the number of picks where there are fewer, rewards, 1/p, and the groups' numbers.
    """
    filled = log.picks >= 0
    gaps = (np.isnan(log.rewards) | np.isnan(log.propensities)) & filled
    known = np.asarray(~gaps.any(axis=1))
    filled = filled[known]
    references = np.where(filled, 1 / log.propensities[known], 0.0)
    share = filled.shape[1] / filled.sum(1, keepdims=True)
    weights = log.at_picks(chances)[known] * references * share
    rewards = np.where(filled, log.rewards[known], 0.0)
    return known, weights, rewards, references, log.at_picks(log.groups)[known]


class Sums(NamedTuple):
    """Sufficient statistics of a policy's estimates on some decisions.

    Each decision whose rewards and propensities are known contributes three numbers, which are
    means over its m picks: wr, w, and the summand of `dr`.

    Attributes:
        n, mean, scatter: the number of such decisions, the mean of the three numbers, (3,), and the
            sum of the outer products of their deviations from it, (3, 3).
        largest: the largest weight.
        groups: for each label, the expected number of picks and the number of candidates.
        unsupported: the summed probability of candidates that the log never picks; NaN where only
            the propensities of picks are known.
        refused: the reason why weighted estimates are refused whatever the numbers, or "".
        least, greatest: the least and the greatest reward.
    """

    n: int
    mean: Floats
    scatter: Floats
    largest: float
    groups: Mapping[Hashable, Floats]
    unsupported: float
    refused: str
    least: float
    greatest: float

    @classmethod
    def of(cls, log: Log, chances: Floats, model: LinearModel) -> Sums:
        """The sums of some decisions, with contexts.

        Args:
            log: the decisions.
            chances: the policy's probabilities π, (n, K).
            model: of the mean reward, from other decisions.

        Raises:
            FairbanditError: products that are beyond double precision.
        """
        assert log.contexts is not None
        known, weights, rewards, *_ = weighted_picks(log, chances)
        present, labels = log.groups >= 0, log.labels
        scores = model.scores(log.contexts) * present
        expected = (chances * scores).sum(1)[known] / (log.picks >= 0).sum(1)[known]
        with np.errstate(all="ignore"):
            robust = expected + (weights * (rewards - log.at_picks(scores)[known])).mean(1)
            three = np.stack([(weights * rewards).mean(1), weights.mean(1), robust])
            mean = three.sum(1) / max(len(expected), 1)
            scatter = (three - mean[:, None]) @ (three - mean[:, None]).T
        if not np.isfinite(scatter).all():
            raise FairbanditError("the log has rewards or weights too large to be squared")
        counts = [
            np.bincount(log.groups[present], by, len(labels)) for by in (chances[present], None)
        ]
        lacking, refused = math.nan, ""
        if log.probabilities is not None:
            lacking = float(chances[log.probabilities <= 0].sum())
        if np.isnan(log.propensities[:, 0]).any():
            refused = "the log has no propensities"
        if log.draws_models:
            refused = "the logged probabilities are given a draw of the model"
        return cls(
            len(expected),
            mean,
            scatter,
            float(weights.max(initial=0.0)),
            dict(zip(labels, np.transpose(counts).astype(np.float64), strict=True)),
            lacking,
            refused,
            float(np.fmin.reduce(log.rewards, axis=None, initial=math.inf)),
            float(np.fmax.reduce(log.rewards, axis=None, initial=-math.inf)),
        )

    def merged(self, other: Sums) -> Sums:
        """The sums of both together."""
        n, apart = self.n + other.n, other.mean - self.mean
        share, none = other.n / max(n, 1), np.zeros(2)
        labels = {**self.groups, **other.groups}
        return Sums(
            n,
            self.mean + apart * share,
            self.scatter + other.scatter + np.outer(apart, apart) * self.n * share,
            max(self.largest, other.largest),
            {one: self.groups.get(one, none) + other.groups.get(one, none) for one in labels},
            self.unsupported + other.unsupported,
            self.refused or other.refused,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
        )

    @property
    def diagnostics(self) -> dict[str, float]:
        """(Σw)²/Σw², the largest weight, and the share of probability without support, or NaN."""
        mean = float(self.mean[1])
        square = float(self.scatter[1, 1]) / max(self.n, 1) + mean**2
        ess = self.n * mean**2 / square if square else 0.0
        lacking = self.unsupported / float(sum(picks for picks, _ in self.groups.values()))
        return {"ess": ess, "largest_weight": self.largest, "unsupported": lacking}

    @property
    def refusal(self) -> str:
        """The reason why weighted estimates are refused, or "".

        Where only the propensities of picks are known, a test checks that the mean weight is 1. By
        chance, it is off by 3.9 standard errors in one of 10,000 logs.
        """
        lacking = self.diagnostics["unsupported"]
        if self.refused or lacking <= 1e-9:
            return self.refused
        if lacking > 1e-9:
            return f"{lacking:.1%} of its probability has no support in the log"
        n, mean = max(self.n, 2), float(self.mean[1])
        error = math.sqrt(float(self.scatter[1, 1]) / (n - 1) / n)
        if abs(mean - 1) <= 3.9 * error + 1e-9:
            return ""
        return (
            f"the mean weight is {mean:.3f} ± {error:.3f} and should be 1: propensities are wrong, "
            f"or about {max(1 - mean, 0):.0%} of its probability has no support in the log"
        )

    def rewards(self, level: float, reward_range: tuple[float, float] | None) -> Iterator[Found]:
        """The weighted estimates of the reward, unless they are refused; see `evaluate_sums`."""
        if not self.n or self.refusal:
            return
        (wr, w, robust), n, ess = self.mean.tolist(), self.n, self.diagnostics["ess"]
        ways = {"ips": (wr, [1.0, 0.0, 0.0])}
        if w > 0:
            ways["snips"] = wr / w, [1 / w, -wr / w**2, 0.0]
        ways["dr"] = robust, [0.0, 0.0, 1.0]
        for name, (value, gradient) in ways.items():  # by the delta method
            variance = float(gradient @ self.scatter @ gradient) / max(n - 1, 1)
            yield "reward", name, interval(value, math.sqrt(max(variance, 0.0)), n, ess, level)
        if reward_range is None:
            return
        least, greatest = reward_range
        if not least <= self.least <= self.greatest <= greatest:
            raise FairbanditError(
                f"reward_range: the log has rewards from {self.least:g} to {self.greatest:g}; "
                f"got ({least:g}, {greatest:g})"
            )
        # for r in [0, 1], E[w(1 − r)] is 1 − E[wr], since E[w] = 1: each gives one end
        wide, ends = greatest - least, []
        squares = self.scatter / n + np.outer(self.mean, self.mean)
        for sign, origin in ((1, least), (-1, greatest)):  # of ±(r − origin), at least 0
            way = sign * np.array([1.0, -origin, 0.0]) / wide
            end = lower_end(n, float(way @ self.mean), float(way @ squares @ way), (1 - level) / 2)
            ends.append(origin + sign * wide * end)
        yield "reward", "anytime", Interval(wr, ends[0], ends[1], n, ess)

    def selections(self) -> Iterator[Found]:
        """The selection rate of each group that has candidates: picks divided by candidates."""
        for label, (picks, received) in self.groups.items():
            if received:
                rate, n = float(picks / received), int(received)
                yield f"selection:{label}", "exact", Interval(rate, rate, rate, n, n)


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


def check(level: Any, reward_range: Any) -> None:
    """Refuses a level outside (0, 1) and a range of rewards whose ends do not ascend."""
    if not 0 < number(level, "level") < 1:
        raise FairbanditError(f"level: expected a number between 0 and 1, got {level}")
    ends = (0, 1) if reward_range is None else reward_range
    pair = isinstance(ends, (tuple, list)) and len(ends) == 2
    if not (pair and number(ends[0], "reward_range") < number(ends[1], "reward_range")):
        raise FairbanditError(f"reward_range: expected (least, greatest) of a reward, got {ends}")


def evaluate_sums(
    sums: Mapping[str, Sums],
    *,
    level: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    further: Mapping[str, Iterable[Found]] | None = None,
) -> pd.DataFrame:
    """Makes the table of `evaluate` from sufficient statistics alone.

    Args:
        sums: the statistics by policy, as `merged` returns them.
        level: the confidence level of all intervals.
        reward_range: the least and the greatest possible reward. If it is given, the table also has
            time-uniform intervals.
        further: estimates of each policy that these statistics do not determine.

    Returns:
        The table of `evaluate`: the weighted estimates of `reward`, `selection:GROUP`, and the
        further estimates.

    Raises:
        FairbanditError: a value out of range, or rewards outside theirs.
    """
    import pandas as pd

    check(level, reward_range)
    rows, notes, diagnostics = [], [], []
    for name, one in sums.items():
        own = [*one.rewards(level, reward_range), *(further or {}).get(name, ()), *one.selections()]
        rows += [(name, measure, estimator, *estimate) for measure, estimator, estimate in own]
        diagnostics.append({"policy": name, **one.diagnostics})
        if one.refusal:
            notes.append(
                f"{name}: ips, snips, dr and win are refused: {one.refusal}. Log with a selector "
                "that picks every candidate now and then, such as epsilon_greedy"
            )
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    used = set(table["estimator"]) | {"win"} & set(table["measure"])
    known = {names: text for names, text in ASSUMPTIONS.items() if used & set(names.split(", "))}
    table.attrs |= {"diagnostics": diagnostics, "notes": notes, "assumptions": known}
    return table
