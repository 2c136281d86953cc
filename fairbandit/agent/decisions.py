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
    def each(cls, first: int, selection: Selection) -> list[Self]:
        """Returns the decisions of a selection of N rounds, whose tickets count from the first."""
        [actions], [propensities] = selection.actions.tolist(), selection.propensities.tolist()
        decisions = []
        for ticket, (places, chances) in enumerate(zip(actions, propensities, strict=True), first):
            picks, shares = tuple(places), tuple(chances)
            if picks[-1] < 0:  # empty slots come last
                n = picks.index(-1)
                picks, shares = picks[:n], shares[:n]
            decisions.append(cls(places[0], ticket, chances[0], picks, shares))
        return decisions
