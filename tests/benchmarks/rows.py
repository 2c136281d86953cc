"""What a benchmark yields: a row of the table, with the targets that it is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Measure(Enum):
    """What a target bounds, and how the table says so."""

    faster = "≥ {:g} × faster"
    longer = "≤ {:g} × longer"
    beyond = "≤ {:g} s more"
    seconds = "≤ {:g} s"
    gigabytes = "≤ {:g} GB"


@dataclass(frozen=True)
class Target:
    """A bound on one of a row's figures: from below on `faster`, from above on all others."""

    measure: Measure
    bound: float

    def __str__(self) -> str:
        return self.measure.value.format(self.bound)


@dataclass(frozen=True)
class Row:
    """One measurement, and what it is set beside."""

    name: str  # what was timed, with its size; a saved row is found again by it
    seconds: float | None = None  # of the whole, or of one round where the name says so
    beside: str = ""  # what the yardstick is
    yardstick: float | None = None  # its seconds, for the same work
    longer: bool = False  # the ratio says how many times longer this takes, not how much faster
    peak: int | None = None  # the most memory that its own process held, in bytes
    targets: tuple[Target, ...] = ()  # what is asked of it
    stated: bool = True  # this is the size that the targets are stated for
    note: str = ""  # anything that a reader of the figures must know

    @property
    def ratio(self) -> float | None:
        """How many times faster than the yardstick, or longer."""
        if self.seconds is None or self.yardstick is None:
            return None
        return self.seconds / self.yardstick if self.longer else self.yardstick / self.seconds

    def figure(self, measure: Measure) -> float | None:
        """The figure that a target of some measure bounds; None if it was not measured."""
        if measure is Measure.seconds:
            return self.seconds
        if measure is Measure.gigabytes:
            return None if self.peak is None else self.peak / 1e9
        if measure is Measure.beyond:
            known = self.seconds is not None and self.yardstick is not None
            return self.seconds - self.yardstick if known else None  # type: ignore[operator]
        return self.ratio if self.longer == (measure is Measure.longer) else None

    def holds(self, target: Target) -> bool | None:
        """Whether a target is met; None if nobody knows."""
        figure = self.figure(target.measure)
        if figure is None:
            return None
        least = target.measure is Measure.faster
        return figure >= target.bound if least else figure <= target.bound
