"""What a policy gives on some decisions, as sums: those of more decisions add up."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.agent.inputs import number
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import LinearModel
from fairbandit.evaluation.weighted import Estimate, Weighted
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
"""What each estimator assumes."""

UNSUPPORTED = 1e-9
"""A larger share of a policy's probability without support is refused."""

DOUBTFUL = 3.9
"""So many standard errors may the mean weight be off 1: 1e-4 by chance."""

Found = tuple[str, str, Estimate]
"""A measure, an estimator and its estimate."""

MEASURES = "reward rank fair_regret win selection"
"""In the order of the table."""


class Picked(NamedTuple):
    """The picks whose rewards are known, for weighted estimates, each (n, m).

    Attributes:
        known: which decisions of the log these are.
        weights: π/p, times m over the number of picks where there are fewer; 0 in empty slots.
        rewards: 0 in empty slots.
        references: 1/p; 0 in empty slots.
        groups: their numbers.
    """

    known: NDArray[np.bool_]
    weights: Floats
    rewards: Floats
    references: Floats
    groups: Ints

    @classmethod
    def of(cls, log: Log, chances: Floats) -> Picked:
        """The picks of a log, for the probabilities π of a policy, (n, K)."""
        filled = log.picks >= 0
        gaps = (np.isnan(log.rewards) | np.isnan(log.propensities)) & filled
        known = np.asarray(~gaps.any(axis=1))
        filled = filled[known]
        references = np.where(filled, 1 / np.where(filled, log.propensities[known], 1.0), 0.0)
        share = filled.shape[1] / filled.sum(1, keepdims=True)
        weights = log.at_picks(chances)[known] * references * share
        rewards = np.where(filled, log.rewards[known], 0.0)
        groups = log.at_picks(log.groups)[known]
        return cls(known, weights, rewards, references, groups)


class Sums(NamedTuple):
    """What a policy gives on some decisions.

    Attributes:
        weighted: of the decisions whose rewards and propensities are known.
        selected, received: the expected picks of each group, and its candidates, by label.
        unsupported: the policy's probability of candidates that the log never picks, summed; NaN
            where only the propensities of picks are known.
        refused: why there are no weighted estimates, whatever the numbers, or "".
        least, greatest: reward.
    """

    weighted: Weighted
    selected: Mapping[Hashable, float]
    received: Mapping[Hashable, int]
    unsupported: float
    refused: str
    least: float
    greatest: float

    @classmethod
    def of(cls, log: Log, chances: Floats, model: LinearModel) -> Sums:
        """The sums of n decisions.

        Args:
            log: the decisions, with contexts.
            chances: the policy's probabilities, (n, K).
            model: of the mean reward, from other decisions.
        """
        known, weights, rewards, *_ = Picked.of(log, chances)
        assert log.contexts is not None
        present = log.groups >= 0
        scores = model.scores(log.contexts) * present
        expected = (chances * scores).sum(1)[known] / (log.picks >= 0).sum(1)[known]
        weighted = Weighted.of(weights, rewards, log.at_picks(scores)[known], expected)
        numbers = log.groups[present]
        counts = [
            dict(zip(log.labels, np.bincount(numbers, by, len(log.labels)).tolist(), strict=True))
            for by in (chances[present], None)
        ]
        lacking = math.nan
        if log.probabilities is not None:
            lacking = float(chances[log.probabilities <= 0].sum())
        refused = "the log has no propensities" if np.isnan(log.propensities[:, 0]).any() else ""
        if log.draws_models:
            refused = "the logged probabilities are given a draw of the model"
        seen = log.rewards[~np.isnan(log.rewards)]
        ends = seen.min(initial=math.inf), seen.max(initial=-math.inf)
        return cls(weighted, counts[0], counts[1], lacking, refused, *map(float, ends))

    def merged(self, other: Sums) -> Sums:
        """The sums of both together."""
        return Sums(
            self.weighted.merged(other.weighted),
            _added(self.selected, other.selected),
            _added(self.received, other.received),
            self.unsupported + other.unsupported,
            self.refused or other.refused,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
        )

    @property
    def share_unsupported(self) -> float:
        """The share of the policy's probability of candidates that the log never picks, or NaN."""
        return self.unsupported / sum(self.selected.values())

    @property
    def refusal(self) -> str:
        """Why there are no weighted estimates, or "".

        Where only the propensities of picks are known, it is tested that the mean weight is 1.
        """
        lacking = self.share_unsupported
        if self.refused or lacking <= UNSUPPORTED:
            return self.refused
        if lacking > UNSUPPORTED:
            return f"{lacking:.1%} of its probability has no support in the log"
        n, mean = max(self.weighted.n, 2), float(self.weighted.mean[1])
        error = math.sqrt(float(self.weighted.scatter[1, 1]) / (n - 1) / n)
        if abs(mean - 1) <= DOUBTFUL * error + UNSUPPORTED:
            return ""
        return (
            f"the mean weight is {mean:.3f} ± {error:.3f} and should be 1: propensities are wrong, "
            f"or about {max(1 - mean, 0):.0%} of its probability has no support in the log"
        )

    def estimates(self, level: float, reward_range: tuple[float, float] | None) -> Iterable[Found]:
        """Measure, estimator and estimate of the reward, unless it is refused, and of selection.

        Raises:
            FairbanditError: rewards outside the range.
        """
        n = self.weighted.n
        if reward_range is not None and n:
            low, high = reward_range
            if not low <= self.least <= self.greatest <= high:
                raise FairbanditError(
                    f"reward_range: the log has rewards from {self.least:g} to {self.greatest:g}; "
                    f"got ({low:g}, {high:g})"
                )
        if n and not self.refusal:
            for estimator, estimate in self.weighted.estimates(level).items():
                yield "reward", estimator, estimate
            if reward_range is not None:
                yield "reward", "anytime", self.weighted.anytime(*reward_range, level)
        for label, received in self.received.items():
            if received:
                rate = self.selected[label] / received
                exact = Estimate(rate, rate, rate, received, received)
                yield f"selection:{label}", "exact", exact


def _added(left: Mapping[Hashable, Any], right: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
    return {label: left.get(label, 0) + right.get(label, 0) for label in {**left, **right}}


def merged(parts: Iterable[Mapping[str, Sums]]) -> dict[str, Sums]:
    """The sums of several parts together, by policy.

    Raises:
        FairbanditError: there is no part.
    """
    every = list(parts)
    if not every:
        raise FairbanditError("no decisions are left that could judge")
    return {name: reduce(Sums.merged, (one[name] for one in every)) for name in every[0]}


def check(level: Any, reward_range: Any) -> None:
    """Refuses a level or a range of rewards that makes no sense."""
    if not 0 < number(level, "level") < 1:
        raise FairbanditError(f"level: expected a number between 0 and 1, got {level}")
    if reward_range is not None:
        ends = reward_range if isinstance(reward_range, (tuple, list)) else ()
        if len(ends) != 2 or not number(ends[0], "reward_range") < number(ends[1], "reward_range"):
            raise FairbanditError(
                f"reward_range: expected (least, greatest) of a reward, got {reward_range}"
            )


def evaluate_sums(
    sums: Mapping[str, Sums],
    *,
    level: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    further: Mapping[str, Iterable[Found]] | None = None,
) -> pd.DataFrame:
    """The table of what policies gave on decisions of which only the sums are left.

    Args:
        sums: by policy, as `merged` returns them.
        level: of all intervals.
        reward_range: the least and the greatest possible reward, for intervals that hold at all
            times at once.
        further: estimates of each policy that are no functions of sums.

    Returns:
        The table of `evaluate`, whose rows are `reward`, but for the estimator `direct`,
        `selection:GROUP` and what is further given.

    Raises:
        FairbanditError: a value out of range.
    """
    import pandas as pd

    check(level, reward_range)
    rows, notes, diagnostics = [], [], []
    for name, one in sums.items():
        found = [*one.estimates(level, reward_range), *(further or {}).get(name, ())]
        found.sort(key=lambda row: MEASURES.find(row[0].partition(":")[0]))
        rows += [(name, measure, estimator, *estimate) for measure, estimator, estimate in found]
        ess, largest, lacking = one.weighted.ess, one.weighted.largest, one.share_unsupported
        own = {"policy": name, "ess": ess, "largest_weight": largest, "unsupported": lacking}
        diagnostics.append(own)
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
