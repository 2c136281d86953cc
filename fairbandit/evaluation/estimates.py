"""Estimates, their intervals, and the sums over decisions that determine ratios of means.

Each decision has two numbers, a and b, such as the rewards of a group's picks and their number. The
ratio of the means of a and b estimates v = E[a]/E[b]. Its influence function is (a − v·b)/E[b]. For
decisions of weights c, the effective number is (Σc)²/Σc², and the interval is Student's
with one degree of freedom less.

References: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 21 (influence
functions); Chan, Golub and LeVeque (1979), for sums of parts; Dunn, "Multiple comparisons among
means", JASA 1961 (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from fairbandit.agent.inputs import number
from fairbandit.errors import FairbanditError
from fairbandit.logs import Floats

ACROSS = {"selection": "selection_ratio", "reward": "reward_gap", "rank": "rank_gap"}
"""What compares the groups' values of a measure: the least over the greatest, or the difference."""

Span = tuple[float, float]

UNBOUNDED: Span = (-math.inf, math.inf)


class Estimate(NamedTuple):
    """A value and its interval from n decisions, whose effective number is `ess`."""

    measure: str
    estimator: str
    value: float
    low: float
    high: float
    n: int
    ess: float


class Uncertain(NamedTuple):
    """A value from n decisions, whose effective number is `ess`; `ends` are of a given level."""

    value: float
    ends: Callable[[float], Span]
    n: int
    ess: float

    @classmethod
    def student(
        cls,
        value: float,
        variance: float,
        freedom: float,
        n: int,
        ess: float,
        span: Span = UNBOUNDED,
    ) -> Self:
        """Returns a value with Student's t intervals, within the span of possible values."""
        from scipy.special import stdtrit

        error = math.sqrt(max(variance, 0.0))

        def ends(level: float) -> Span:
            half = float(stdtrit(freedom, (1 + level) / 2)) * error if freedom > 1e-9 else math.inf
            low, high = np.clip([value - half, value + half], *span).tolist()
            return low, high

        return cls(value, ends, n, ess)

    def at(self, level: float, measure: str, estimator: str) -> Estimate:
        """Returns the value with its interval at a level."""
        return Estimate(measure, estimator, self.value, *self.ends(level), self.n, self.ess)


def checked_level(level: Any) -> float:
    """Returns a number between 0 and 1; raises a `FairbanditError` for anything else."""
    if not 0 < (value := number(level, "level")) < 1:
        raise FairbanditError(f"level must be above 0 and below 1, got {level}")
    return value


class Moments(NamedTuple):
    """The sums that give the means and covariances of k numbers of each of n decisions.

    Attributes:
        n, mean, scatter: the number of decisions, the means, (k,), and the sum of the outer
            products of the deviations from them, (k, k).
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

    def merged(self, n: int, mean: Floats, scatter: Floats) -> Self:
        """Returns the sums with further decisions."""
        total, apart = self.n + n, mean - self.mean
        share = n / max(total, 1)
        between = np.outer(apart, apart) * self.n * share
        return type(self)(total, self.mean + apart * share, self.scatter + scatter + between)

    def effective(self, weight: int) -> float:
        """Returns the effective number of decisions, (Σc)²/Σc², of some weights c."""
        mean = float(self.mean[weight])
        square = float(self.scatter[weight, weight]) / max(self.n, 1) + mean**2
        return self.n * mean**2 / square if square else 0.0

    def ratio(
        self, above: int, below: int, weight: int, n: int, span: Span = UNBOUNDED
    ) -> Uncertain:
        """Estimates the ratio of two means, with the effective number of the weights."""
        value, ess = float(self.mean[above] / self.mean[below]), self.effective(weight)
        gradient = np.zeros(len(self.mean))
        gradient[above] += 1
        gradient[below] -= value
        variance = float(gradient @ self.scatter @ gradient) / (self.n * self.mean[below]) ** 2
        variance *= ess / max(ess - 1, 1e-9)
        return Uncertain.student(value, variance, ess - 1, n, ess, span)


def by_group(
    measure: str, estimator: str, groups: Mapping[str, Uncertain], level: float, *, whole: bool
) -> Iterator[Estimate]:
    """Yields a measure of each group, and then what compares the groups.

    Let the intervals of all G groups hold together, which they do with probability at least `level`
    if each holds with probability 1 − (1 − level)/G (Bonferroni). Then the least value is between
    the least lower and the least upper end, and the greatest between the greatest ones. So these
    give the ends of their ratio or difference. Groups are not compared unless they are the `whole`,
    with none missing.
    """
    for label, own in groups.items():
        yield own.at(level, f"{measure}:{label}", estimator)
    if measure not in ACROSS or not whole or len(groups) < 2:
        return
    values = [own.value for own in groups.values()]
    ends = [own.ends(1 - (1 - level) / len(groups)) for own in groups.values()]
    lows, highs = zip(*ends, strict=True)
    least, most = (min(values), min(lows), min(highs)), (max(values), max(highs), max(lows))
    if measure == "selection":
        pairs = zip(least, most, strict=True)
        value, low, high = (min(down / up, 1.0) if up > 0 else 1.0 for down, up in pairs)
    else:
        value, high, low = (max(up - down, 0.0) for up, down in zip(most, least, strict=True))
    n, ess = (min(getattr(own, key) for own in groups.values()) for key in ("n", "ess"))
    yield Estimate(ACROSS[measure], estimator, value, low, high, n, ess)
