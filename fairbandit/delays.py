"""Rewards that come late in simulation: how many rounds each waits, and those that wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.past import Outcomes
from fairbandit.streams import Purpose, Streams

LAWS = ("fixed", "geometric")
"""How delays are distributed."""


class Delays:
    """The delay D of each round's rewards: they come after the decision of round t + D.

    With D = 0 they come before the next decision, as without delays. Fixed delays are all equal.
    Geometric ones have P(D = k) = p(1 − p)ᵏ, with the same mean. A delay depends on the seed and
    the round alone: all replicas of a run share it, and so do all policies.

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

    def of_round(self, t: int) -> int:
        """D of round t, from 1."""
        if not self._mean or self._law == "fixed":
            return self._mean
        drawn = self._stream.uniform(t, 1, 1).item()
        return int(math.log1p(-drawn) / math.log(self._mean / (1 + self._mean)))


class Waiting:
    """The outcomes that have not come, by the round after whose decision they come."""

    def __init__(self) -> None:
        self._outcomes: dict[int, list[Outcomes]] = {}

    def add(self, t: int, outcomes: Outcomes) -> None:
        """Adds outcomes that come after the decision of round t."""
        self._outcomes.setdefault(t, []).append(outcomes)

    def come(self, t: int) -> list[Outcomes]:
        """The outcomes that come after the decision of round t, oldest first; they wait no more."""
        return self._outcomes.pop(t, [])

    def state(self) -> list[list[Any]]:
        """Each round with its outcomes, as plain numbers and tensors."""
        return [[t, *one] for t, several in self._outcomes.items() for one in several]

    def load_state(self, state: Sequence[tuple[int, Tensor, Tensor, Tensor, Tensor]]) -> None:
        """Continues from what `state` gave."""
        self._outcomes = {}
        for t, *parts in state:
            self.add(t, Outcomes(*parts))
