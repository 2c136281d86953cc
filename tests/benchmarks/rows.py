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
    """One measurement, and what it is set beside.

    Attributes:
        name: what was timed, with its size; a saved row is found again by it.
        seconds: of the whole, or of one round where the name says so; None if it was not run.
        beside: what the yardstick is.
        yardstick: its seconds, for the same work.
        longer: whether the ratio says how many times longer this takes than the yardstick, and
            not how many times faster it is.
        peak: the most memory that the measurement's own process held, in bytes.
        targets: what is asked of it.
        stated: whether this is the size that the targets are stated for.
        note: anything that a reader of the figures must know.
    """

    name: str
    seconds: float | None = None
    beside: str = ""
    yardstick: float | None = None
    longer: bool = False
    peak: int | None = None
    targets: tuple[Target, ...] = ()
    stated: bool = True
    note: str = ""

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
        return (
            figure >= target.bound if target.measure is Measure.faster else figure <= target.bound
        )
