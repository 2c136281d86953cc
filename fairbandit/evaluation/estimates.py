"""Estimates, their intervals, and the sums over decisions that determine ratios of means.

Each decision has two numbers, a and b, such as the rewards of a group's picks and their number. The
ratio of the means of a and b estimates v = E[a]/E[b]. Its influence function is (a − v·b)/E[b]. For
decisions of weights c, the effective number is (Σc)²/Σc². The estimated variance has about as many
degrees of freedom as the squares of the weights have effective decisions, less 1.

References: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 21 (influence
functions); Chan, Golub and LeVeque (1979), for sums of parts; Dunn, "Multiple comparisons among
means", JASA 1961 (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from fairbandit.agent.inputs import number
from fairbandit.errors import FairbanditError
from fairbandit.logs import Floats
from fairbandit.runs.intervals import Span, mean_ends, share_ends
from fairbandit.tables.labels import is_unknown

ACROSS = {"selection": "selection_ratio", "reward": "reward_gap", "rank": "rank_gap"}
"""The measure that compares groups: the ratio min/max, or the difference max − min."""

Ends = Callable[[float], Span]  # returns the ends of an interval at a confidence


class Uncertain(NamedTuple):
    """A value from n decisions, whose effective number is `ess`; `ends` depend on a confidence."""

    value: float
    ends: Ends
    n: int
    ess: float


Estimate = tuple[str, str, Uncertain]  # A measure, an estimator and its value


def checked_confidence(confidence: Any) -> float:
    """Returns a number from 0.5 to 1; a smaller one, such as 0.05, is the level of a test."""
    if not 0.5 <= (value := number(confidence, "confidence")) < 1:
        raise FairbanditError(
            f"confidence: expected 0.5 or more and below 1, such as 0.95, got {confidence}"
        )
    return value


class Moments(NamedTuple):
    """The number of decisions, the means of k numbers of each, and their scatter, (k, k).

    The scatter is the sum of the outer products of the deviations from the means.
    """

    n: int
    mean: Floats
    scatter: Floats

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Returns the sums of values (k, n)."""
        mean = values.sum(1) / max(values.shape[1], 1)
        deviations = values - mean[:, None]
        return cls(values.shape[1], mean, deviations @ deviations.T)

    def effective(self, weight: int) -> float:
        """Returns the effective number of decisions, (Σc)²/Σc², of the weights c in a row."""
        mean = float(self.mean[weight])
        square = float(self.scatter[weight, weight]) / max(self.n, 1) + mean**2
        return self.n * mean**2 / square if square else 0.0

    def ratio(
        self,
        above: int,
        below: int,
        weight: int,
        n: int,
        span: Span,
        squares: int | None = None,
        ends: Callable[..., Span] = mean_ends,
    ) -> Uncertain:
        """Estimates the ratio of the means of a and b, with weights c: numbers of their rows.

        `span` has the least and the greatest value that a decision may have. `squares` is the row
        of c² for weights that differ: an event is then unseen in `ess` decisions, not in n. The
        rows after it are the scores of estimated propensities (`fairbandit.logs.propensities`).
        """
        value, ess = float(self.mean[above] / self.mean[below]), self.effective(weight)
        gradient = np.zeros(len(self.mean))
        gradient[above] += 1
        gradient[below] -= value
        products = gradient @ self.scatter
        explained = 0.0 if squares is None else float((products[squares + 1 :] ** 2).sum())
        variance = (float(products @ gradient) - explained) / (self.n * self.mean[below]) ** 2
        variance = max(variance, 0.0) * ess / max(ess - 1, 1e-9)
        freedom = (ess if squares is None else self.effective(squares)) - 1
        units = n if squares is None else ess
        return Uncertain(value, partial(ends, value, variance, freedom, units, span), n, ess)


def share_of(sums: Moments, above: int, below: int, n: int) -> Uncertain:
    """Estimates a share, which is the ratio of two rows; the second has the weights."""
    return sums.ratio(above, below, below, n, (0.0, 1.0), ends=share_ends)


def by_group(
    measure: str, estimator: str, groups: Mapping[str, Uncertain], *, whole: bool
) -> Iterator[Estimate]:
    """Yields a measure of each group, and of `whole` groups with none missing, what compares them.

    Groups of people who did not say are not compared.
    """
    for label, estimate in groups.items():
        yield f"{measure}:{label}", estimator, estimate
    compared = [estimate for label, estimate in groups.items() if not is_unknown(label)]
    if measure in ACROSS and whole and len(compared) > 1:
        value, _ = _compare(measure, [(estimate.value, estimate.value) for estimate in compared])
        n, ess = (min(getattr(estimate, key) for estimate in compared) for key in ("n", "ess"))

        def ends(confidence: float) -> Span:
            each = 1 - (1 - confidence) / len(compared)  # so that all hold together (Bonferroni)
            return _compare(measure, [estimate.ends(each) for estimate in compared])

        yield ACROSS[measure], estimator, Uncertain(value, ends, n, ess)


def _compare(measure: str, ends: list[Span]) -> Span:
    """Returns the ends of the ratio or the difference of values within these ends."""
    lows, highs = zip(*ends, strict=True)
    # the least value is between the least ends, and the greatest between the greatest
    pairs = [(min(lows), max(highs)), (min(highs), max(lows))]
    if measure == "selection":
        low, high = (min(least / most, 1.0) if most > 0 else 1.0 for least, most in pairs)
    else:
        high, low = (max(most - least, 0.0) for least, most in pairs)
    return low, high
