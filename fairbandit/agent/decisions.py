"""Decisions of agents."""

from __future__ import annotations

from typing import NamedTuple, Self

from fairbandit.selectors import Selection


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
    def of(cls, ticket: int, selection: Selection) -> Self:
        """Builds the decision of a selection of one round and replica, without empty slots."""
        [[places]], [[chances]] = selection.actions.tolist(), selection.propensities.tolist()
        n = sum(place >= 0 for place in places)
        return cls(places[0], ticket, chances[0], tuple(places[:n]), tuple(chances[:n]))
