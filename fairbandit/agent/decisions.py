"""Decisions of agents."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

from fairbandit.logs.events import Decided


class Decision(NamedTuple):
    """The picks of an agent in one round.

    Attributes:
        candidate: the index of the pick, or of the first pick, in its pool, from 0; −1 if the
            selector picked no candidate, as `rolling` may.
        ticket: the round's number, from 1, by which its reward is reported.
        propensity: the probability of the pick, given the past and the round's draws of the
            estimator and the rank.
        picks: all picks, in order of preference.
        propensities: the probability of each pick to be among the picks.
    """

    candidate: int
    ticket: int
    propensity: float
    picks: tuple[int, ...]
    propensities: tuple[float, ...]

    @classmethod
    def of(cls, event: Decided) -> Self:
        """Returns the decision of an event."""
        picks, ticket = event.picks, event.ticket
        if not picks:
            return cls(-1, ticket, math.nan, (), ())
        shares = tuple([event.probabilities[place] for place in picks])
        return cls(picks[0], ticket, shares[0], picks, shares)
