"""Decisions whose rewards have not come."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import torch
from torch import Tensor

from fairbandit.agent import inputs
from fairbandit.errors import FairbanditError
from fairbandit.formats import Count, Natural, fitted, mapping, within
from fairbandit.logs.schema import pick_hashes
from fairbandit.maths.checks import shown
from fairbandit.part import Problem
from fairbandit.past import Outcomes

SHOWN = 10
"""A message names at most so many of those that wait."""

_PLACES = list[tuple[Natural, ...]]
_STATE = mapping(
    latest=Count | None, tickets=list[Count], places=_PLACES, waiting=_PLACES, pools=list[str]
)


class Waiting(NamedTuple):
    """The picks of a round.

    Attributes:
        places: of all picks in their pool, in order of preference.
        open: those that wait for a reward.
        contexts, groups: of these, (1, w, d) and (1, w).
        pool: what stands for the labels of the pool where the decision is recognised.
    """

    places: tuple[int, ...]
    open: tuple[int, ...]
    contexts: Tensor
    groups: Tensor
    pool: str

    def hashes(self, t: int, rewards: Mapping[int, float]) -> list[tuple[int, int, int]]:
        """The hashes of picks of round t with their rewards, by place; see `logs.schema`."""
        contexts = self.of(list(rewards))[0][0].numpy(force=True)
        return [
            pick_hashes(t, self.pool, place, reward, x)
            for (place, reward), x in zip(rewards.items(), contexts, strict=True)
        ]

    def of(self, places: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The contexts and groups of some that wait, in this order."""
        if tuple(places) == self.open:
            return self.contexts, self.groups
        at = torch.tensor([self.open.index(place) for place in places])
        return self.contexts.index_select(1, at), self.groups.index_select(1, at)


class Tickets(NamedTuple):
    """The picks of rounds that wait for a reward, a value; a ticket is the round's number.

    Attributes:
        picks: those of each round, oldest first.
        latest: the ticket of the last decision, None before there is one.
    """

    picks: Mapping[int, Waiting]
    latest: int | None

    def add(
        self, t: int, places: tuple[int, ...], contexts: Tensor, groups: Tensor, pool: str
    ) -> Tickets:
        """With the picks of the latest round, (1, m, d) and (1, m)."""
        return Tickets({**self.picks, t: Waiting(places, places, contexts, groups, pool)}, t)

    def remove(self, t: int, places: Collection[int] | None = None) -> Tickets:
        """Without some picks of a round, or all of them."""
        picks, one = dict(self.picks), self.picks[t]
        left = tuple(place for place in one.open if places is not None and place not in places)
        if left:
            picks[t] = Waiting(one.places, left, *one.of(left), one.pool)
        else:
            del picks[t]
        return Tickets(picks, self.latest)

    def give_up(self, rounds: int, patience: int | None) -> Tickets:
        """After so many rounds, without the rewards that patience has run out for."""
        first = 0 if patience is None else rounds - patience
        if next(iter(self.picks), first) >= first:
            return self
        return Tickets({t: pick for t, pick in self.picks.items() if t >= first}, self.latest)

    def rewards(self, t: int, given: Any, candidate: Any) -> dict[int, float]:
        """The rewards of some picks of a round, by place.

        Args:
            t: the round, which waits.
            given: the reward of a candidate, of the only pick, a list with one for each pick in
                order of preference, or a mapping from places.
            candidate: the place of the candidate; None if it is the only pick, or all are given.

        Raises:
            FairbanditError: no finite numbers, another number of them, or a candidate that waits
                for no reward.
        """
        places, waiting, *_ = self.picks[t]
        every = given.tolist() if hasattr(given, "tolist") else given
        if candidate is not None:
            every = {inputs.whole(candidate, "candidate"): given}
        elif len(places) == 1 and not isinstance(every, Mapping):
            every = {places[0]: given}
        elif isinstance(every, (list, tuple)) and len(every) == len(places):
            every = dict(zip(places, every, strict=True))
        if not isinstance(every, Mapping) or not every:
            raise FairbanditError(
                f"ticket {t} has {len(places)} picks: name the candidate of a reward, "
                f"update(reward, ticket, candidate={places[0]}), or give a list with the rewards "
                f"of all in the order of decision.picks; got {shown(given)}"
            )
        if wrong := [place for place in every if place not in waiting]:
            raise FairbanditError(
                f"no reward is waited for of candidate {shown(wrong[0])} by ticket {t}: those that "
                f"wait are {', '.join(map(str, waiting))}"
            )
        return {int(place): inputs.number(one, "reward") for place, one in every.items()}

    def find(self, given: Any) -> int:
        """The round that a ticket stands for.

        Raises:
            FairbanditError: a round that waits for no reward.
        """
        try:
            t = operator.index(given)
        except TypeError:
            t = 0
        if t not in self.picks:
            waiting = ", ".join(map(str, list(self.picks)[:SHOWN])) or "none"
            more = ", …" if len(self.picks) > SHOWN else ""
            raise FairbanditError(
                f"no decision waits for a reward by ticket {shown(given)}: it came already, was "
                f"given up, or there is no such decision; those that wait are {waiting}{more}"
            )
        return t

    def outcomes(self, t: int, rewards: Mapping[int, float]) -> Outcomes:
        """What picks of a round gave, by place."""
        given = torch.from_numpy(np.array([list(rewards.values())]))  # faster than torch.tensor
        rounds = torch.from_numpy(np.full(len(rewards), t))
        return Outcomes(rounds, *self.picks[t].of(list(rewards)), given)

    def state(self, features: int) -> dict[str, Any]:
        """All that waits, as plain tensors and numbers."""
        none = torch.zeros(1, 0, features, dtype=torch.float64)
        every = self.picks.values()
        return {
            "latest": self.latest,
            "tickets": list(self.picks),
            "places": [list(one.places) for one in every],
            "waiting": [list(one.open) for one in every],
            "pools": [one.pool for one in every],
            "groups": [group for one in every for group in one.groups[0].tolist()],
            "contexts": torch.cat([none, *(one.contexts for one in every)], 1),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any], problem: Problem) -> Self:
        """The tickets of a problem that gave a state.

        Raises:
            ValueError: no tickets give such a state.
        """
        read, none = msgspec.convert(state, _STATE), problem.zeros(1, 0, problem.features)
        widths, tickets = [len(own) for own in read["waiting"]], read["tickets"]
        groups = torch.tensor(state["groups"], dtype=torch.int64)[None]
        parts = (part.split(widths, 1) for part in (fitted(state["contexts"], none), groups))
        rows = zip(read["places"], read["waiting"], *parts, read["pools"], strict=True)
        every = [Waiting(a, b, x.clone(), g.clone(), pool) for a, b, x, g, pool in rows]
        late = max(tickets, default=0) > (read["latest"] or 0)
        if late or not within(groups, 0, problem.groups - 1):
            raise ValueError("its decisions that wait do not fit each other")
        return cls(dict(zip(tickets, every, strict=True)), read["latest"])
