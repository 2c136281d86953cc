"""Delayed rewards in simulation: draws delays, and holds outcomes until they arrive."""

from __future__ import annotations

import math

from fairbandit.errors import FairbanditError
from fairbandit.history import Outcomes
from fairbandit.streams import Purpose, Streams

LAWS = ("fixed", "geometric")
"""The distributions of delays."""


class Delays:
    """Holds the outcomes of round t until the decision of round t + D has been made.

    With D = 0 they arrive before the next decision. Fixed delays are all equal; geometric delays
    have P(D = k) = p(1 − p)ᵏ and the same mean. A delay depends only on the seed and the round, so
    all replicas of a run and all policies share it.

    Args:
        mean: the mean delay in rounds, at least 0.
        law: one of `LAWS`.
        seed: the seed of the run; delays have their own stream.

    Raises:
        FairbanditError: the mean is negative, or the law is unknown.

    >>> Delays(3, "fixed", seed=0).of_round(7)
    3
    """

    def __init__(self, mean: int, law: str, seed: int) -> None:
        if mean < 0 or law not in LAWS:
            raise FairbanditError(
                f"delay must be at least 0, and delay_law one of {', '.join(LAWS)}; got {mean} and "
                f"{law!r}"
            )
        self._mean, self._law = mean, law
        self._stream = Streams(seed, [0])[Purpose.DELAYS]
        self._waiting: dict[int, list[Outcomes]] = {}

    def of_round(self, t: int) -> int:
        """Returns the delay D of round t, from 1."""
        if not self._mean or self._law == "fixed":
            return self._mean
        drawn = self._stream.uniform(t, 1, 1).item()
        return int(math.log1p(-drawn) / math.log(self._mean / (1 + self._mean)))

    def exchange(self, t: int, outcomes: Outcomes) -> list[Outcomes]:
        """Adds the outcomes of round t; returns outcomes that arrive now, oldest round first."""
        self._waiting.setdefault(t + self.of_round(t), []).append(outcomes)
        return self._waiting.pop(t, [])
