"""Rewards that come late in simulation: how many rounds each waits, and those that wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fairbandit.errors import FairbanditError
from fairbandit.past import Knowledge, Outcomes
from fairbandit.streams import Purpose, Streams

LAWS = ("fixed", "geometric")
"""How delays are distributed."""


class Delays:
    """Keeps the outcomes of round t until the decision of round t + D was made.

    With D = 0 they come before the next decision. Fixed delays are all equal; geometric ones have
    P(D = k) = p(1 − p)ᵏ and the same mean. A delay depends on the seed and the round alone: all
    replicas of a run share it, and so do all policies.

    Args:
        mean: the mean delay in rounds, at least 0.
        law: one of `LAWS`.
        seed: of the run; delays have a stream of their own.

    Raises:
        FairbanditError: a negative mean, or an unknown law.

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
        """D of round t, from 1."""
        if not self._mean or self._law == "fixed":
            return self._mean
        drawn = self._stream.uniform(t, 1, 1).item()
        return int(math.log1p(-drawn) / math.log(self._mean / (1 + self._mean)))

    def exchange(self, t: int, outcomes: Outcomes) -> list[Outcomes]:
        """Takes the outcomes of round t; returns those that come now, of the oldest round first."""
        self._waiting.setdefault(t + self.of_round(t), []).append(outcomes)
        return self._waiting.pop(t, [])

    def state(self) -> list[list[Any]]:
        """The outcomes that wait, each after the round when it comes, as plain data."""
        return [[t, *one] for t, several in self._waiting.items() for one in several]

    def load_state(self, state: Sequence[Sequence[Any]], known: Knowledge) -> None:
        """Continues from a saved `state`, with the knowledge of that time."""
        self._waiting, past = {}, known.past
        for t, *parts in state:
            found = past.nothing.restored(parts, past.rounds, known.problem.groups)
            self._waiting.setdefault(t, []).append(found)
