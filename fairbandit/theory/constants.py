"""The constants of a problem that the paper's bounds are made of, and how well they are known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

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


_ONE = Estimate.exactly(1.0, "one candidate a group")
_WORSE_HIGH = ("norm", "density", "noise")
_WORSE_LOW = ("eigenvalue", "candidates", "balance")


@dataclass(frozen=True)
class Constants:
    """The constants of a problem that the bounds depend on.

    Attributes:
        places: K.
        groups: G.
        features: d.
        norm: L = sup ‖x‖₂ over the support of all groups.
        eigenvalue: λ⁺_min(Σ), Σ = G⁻¹ Σ_i E[X̂_i X̂_iᵀ] (where K = G and s_a = a, the Σ of
            `th:regret`).
        density: M, the greatest density of the true rewards of any group.
        noise: R, the subgaussian constant of the reward noise.
        theta: ‖μ*‖₂.
        candidates: q_K = min_i Σ_a P(s_a = i), the mean number of candidates of the rarest group
            in a pool.
        balance: q_min = G·min_i P(s_a = i) where places are drawn alike, else None.
        random: whether some place's group is random (the indicator in `lm:chernoff`).
        caveats: which assumptions the problem does not meet.
    """

    places: int
    groups: int
    features: int
    norm: Estimate
    eigenvalue: Estimate
    density: Estimate
    noise: Estimate
    theta: float
    candidates: Estimate = _ONE
    balance: Estimate | None = None
    random: bool = False
    caveats: tuple[str, ...] = ()

    @property
    def own_places(self) -> bool:
        """Whether G = K and each group has a place of its own, as `th:regret` asks."""
        return not self.random and self.places == self.groups and self.candidates.value == 1

    def counted(self, alpha: float) -> float:
        """αq_K of `lm:chernoff`: the candidates of each group that a round is counted on to bring.

        Args:
            alpha: α where groups are random. Where they are fixed, α is 1.
        """
        return (alpha if self.random else 1.0) * self.candidates.value

    @property
    def share(self) -> float:
        """q_K·G/K of `eq:patboundused`: the rarest group's share of a pool, times G."""
        return self.candidates.value * self.groups / self.places

    @property
    def exact(self) -> bool:
        """Whether all constants are exact."""
        estimates = [getattr(self, name) for name in (*_WORSE_HIGH, *_WORSE_LOW)]
        return all(known.exact for known in estimates if known)

    def at(self, *, worst: bool) -> Constants:
        """The constants at those ends of their intervals that make bounds largest or smallest."""
        ends: dict[str, Any] = {}
        for name in (*_WORSE_HIGH, *_WORSE_LOW):
            known: Estimate | None = getattr(self, name)
            if known:
                end = known.high if worst == (name in _WORSE_HIGH) else known.low
                ends[name] = Estimate.exactly(end, known.how)
        return replace(self, **ends)
