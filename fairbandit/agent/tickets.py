"""Decisions whose rewards have not come."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from fairbandit.agent import inputs
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.past import Outcomes

SHOWN = 10
"""A message names at most so many of those that wait."""


class Waiting(NamedTuple):
    """The picks of a round.

    Attributes:
        places: of all picks in their pool, in order of preference.
        contexts, groups: by place, of those that wait for a reward, (1, 1, d) and (1, 1).
    """

    places: tuple[int, ...]
    contexts: Mapping[int, Tensor]
    groups: Mapping[int, Tensor]


class Tickets(NamedTuple):
    """The picks of rounds that wait for a reward, a value; a ticket is the round's number.

    Attributes:
        picks: those of each round, oldest first.
        latest: the ticket of the last decision, None before there is one.
    """

    picks: Mapping[int, Waiting]
    latest: int | None

    def add(self, t: int, places: Sequence[int], contexts: Tensor, groups: Tensor) -> Tickets:
        """With the picks of the latest round, (1, m, d) and (1, m)."""
        own = (dict(zip(places, part.split(1, 1), strict=True)) for part in (contexts, groups))
        return Tickets({**self.picks, t: Waiting(tuple(places), *own)}, t)

    def remove(self, t: int, places: Collection[int] = ()) -> Tickets:
        """Without some picks of a round, or all of them."""
        picks = dict(self.picks)
        places_, *parts = picks.pop(t)
        if places and len(places) < len(parts[0]):
            left = ({k: v for k, v in part.items() if k not in places} for part in parts)
            picks = {other: self.picks[other] for other in self.picks}
            picks[t] = Waiting(places_, *left)
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
        places, waiting, _ = self.picks[t]
        every = given.tolist() if hasattr(given, "tolist") else given
        if candidate is not None:
            every = {candidate: given}
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
        _, contexts, groups = self.picks[t]
        x, g = (torch.cat([part[place] for place in rewards], 1) for part in (contexts, groups))
        given = torch.from_numpy(np.array([list(rewards.values())]))  # faster than torch.tensor
        return Outcomes(torch.from_numpy(np.full(len(rewards), t)), x, g, given)

    def state(self, features: int) -> dict[str, Any]:
        """All that waits, as plain tensors and numbers."""
        none = torch.zeros(1, 0, features, dtype=torch.float64)
        every = self.picks.values()
        return {
            "latest": self.latest,
            "tickets": list(self.picks),
            "places": [list(one.places) for one in every],
            "waiting": [list(one.contexts) for one in every],
            "groups": [int(group) for one in every for group in one.groups.values()],
            "contexts": torch.cat([none, *(x for one in every for x in one.contexts.values())], 1),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The tickets that gave a state."""
        contexts = iter([one[:, None].clone() for one in state["contexts"].unbind(1)])
        groups = iter([torch.tensor([[group]]) for group in state["groups"]])
        picks = dict[int, Waiting]()
        for t, places, own in zip(state["tickets"], state["places"], state["waiting"], strict=True):
            of = ({place: next(part) for place in own} for part in (contexts, groups))
            picks[t] = Waiting(tuple(places), *of)
        return cls(picks, state["latest"])
