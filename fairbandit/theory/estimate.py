"""Numbers with an interval and a note on how each was found."""

from __future__ import annotations

import math
from dataclasses import dataclass

Z = 1.96
"""Intervals of estimates are Z standard errors to either side: 95 % where errors are normal."""


@dataclass(frozen=True)
class Estimate:
    """A number, exact unless `low` and `high` differ or it is only a lower bound.

    Attributes:
        value: the number.
        low: the lower end of its interval.
        high: the upper end.
        how: the method by which it was found, in a few words.
        lower_bound: whether the true number is at least `value`, by an unknown amount.
    """

    value: float
    low: float
    high: float
    how: str
    lower_bound: bool = False

    @property
    def exact(self) -> bool:
        """Whether the number has no error."""
        return self.low == self.high and not self.lower_bound

    @staticmethod
    def exactly(value: float, how: str) -> Estimate:
        """A number without error.

        >>> Estimate.exactly(2.0, "closed form").exact
        True
        """
        return Estimate(value, value, value, how)

    @staticmethod
    def at_least(value: float, how: str) -> Estimate:
        """A lower bound, such as the largest of some values that were drawn.

        >>> Estimate.at_least(2.0, "largest of 10").exact
        False
        """
        return Estimate(value, value, value, how, lower_bound=True)

    @staticmethod
    def within(value: float, error: float, how: str) -> Estimate:
        """A nonnegative number with a standard error; its interval is value ± `Z`·error.

        >>> interval = Estimate.within(1.0, 0.1, "from a sample")
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.804, 1.196)
        """
        return Estimate(value, max(0.0, value - Z * error), value + Z * error, how)

    @staticmethod
    def scaled(value: float, error: float, how: str) -> Estimate:
        """A number above 0 with a standard error; its interval is value·exp(± `Z`·error/value).

        Both ends are above 0, however rare what was counted.

        >>> interval = Estimate.scaled(1.0, 0.1, "from a sample")
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.822, 1.217)
        """
        factor = math.exp(Z * error / value)
        return Estimate(value, value / factor, value * factor, how)
