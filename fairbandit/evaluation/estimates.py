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

Ends = Callable[[float], Span]
"""Returns the ends of an interval at a confidence."""


class Uncertain(NamedTuple):
    """A value from n decisions, whose effective number is `ess`; `ends` depend on a confidence."""

    value: float
    ends: Ends
    n: int
    ess: float


Estimate = tuple[str, str, Uncertain]
"""A measure, an estimator and its value."""


def checked_confidence(confidence: Any) -> float:
    """Returns a number from 0.5 to 1; raises a `FairbanditError` for anything else.

    A smaller number, such as 0.05, is the level of a test.
    """
    if not 0.5 <= (value := number(confidence, "confidence")) < 1:
        raise FairbanditError(
            f"confidence: expected 0.5 or more and below 1, such as 0.95, got {confidence}"
        )
    return value


class Moments(NamedTuple):
    """The sums that give the means and covariances of k numbers of each of n decisions.

    `scatter` is the sum of the outer products of the deviations from the means, (k, k).
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
        """Returns the effective number of decisions, (Σc)²/Σc², of some weights c."""
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
        *,
        squares: int | None = None,
        share: bool = False,
    ) -> Uncertain:
        """Estimates the ratio of two means; see `share_ends` and `mean_ends` for its interval.

        Args:
            above, below, weight: the rows of a, b and the weights c.
            n: the number of decisions that count.
            span: the least and the greatest value that a decision may have.
            squares: the row of c², for weights that differ: it gives the degrees of freedom, and
                an event is unseen in `ess` decisions; without it, in n. The rows after it are the
                scores of estimated propensities; see `fairbandit.logs.propensities`.
            share: whether the ratio cannot leave the span.
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
        method = share_ends if share else mean_ends
        return Uncertain(value, partial(method, value, variance, freedom, units, span), n, ess)


def by_group(
    measure: str, estimator: str, groups: Mapping[str, Uncertain], *, whole: bool
) -> Iterator[Estimate]:
    """Yields a measure of each group, and then what compares the groups.

    Groups are compared only if they are the `whole`, with none missing. Groups of people who did
    not say are not compared.
    """
    for label, own in groups.items():
        yield f"{measure}:{label}", estimator, own
    compared = [own for label, own in groups.items() if not is_unknown(label)]
    if measure in ACROSS and whole and len(compared) > 1:
        value, _ = _compare(measure, [(own.value, own.value) for own in compared])
        n, ess = (min(getattr(own, key) for own in compared) for key in ("n", "ess"))
        ends = partial(_ends_across, measure, compared)
        yield ACROSS[measure], estimator, Uncertain(value, ends, n, ess)


def _ends_across(measure: str, groups: list[Uncertain], confidence: float) -> Span:
    """Returns the least and the greatest comparison that the groups' intervals allow.

    With G groups, each interval at confidence 1 − (1 − confidence)/G, all hold together with
    probability `confidence` or more (Bonferroni).
    """
    return _compare(measure, [own.ends(1 - (1 - confidence) / len(groups)) for own in groups])


def _compare(measure: str, ends: list[Span]) -> Span:
    """Returns the ends of the ratio or the difference of values within these ends.

    The least value lies between the least lower end and the least upper end, and the greatest value
    between the greatest ends.
    """
    lows, highs = zip(*ends, strict=True)
    pairs = [(min(lows), max(highs)), (min(highs), max(lows))]
    if measure == "selection":
        low, high = (min(least / most, 1.0) if most > 0 else 1.0 for least, most in pairs)
    else:
        high, low = (max(most - least, 0.0) for least, most in pairs)
    return low, high
