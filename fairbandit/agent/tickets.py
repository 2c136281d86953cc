"""Decisions that wait for rewards."""

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
"""The largest number of waiting tickets that a message lists."""

_PLACES = list[tuple[Natural, ...]]
_STATE = mapping(
    latest=Count | None, tickets=list[Count], places=_PLACES, waiting=_PLACES, pools=list[str]
)


class Waiting(NamedTuple):
    """The picks of a round that waits for at least one reward.

    Attributes:
        places: the places of all picks in their pool, in order of preference.
        open: the places of the w picks that wait for a reward.
        contexts, groups: the contexts and groups of the open picks, (1, w, d) and (1, w).
        pool: the key of the pool's labels, see `pool_key`.
    """

    places: tuple[int, ...]
    open: tuple[int, ...]
    contexts: Tensor
    groups: Tensor
    pool: str

    @classmethod
    def picked(cls, pool: inputs.Pool, places: tuple[int, ...]) -> Self:
        """Returns the picks at some places of a pool, which all wait for a reward."""
        at = torch.tensor(places)
        x, groups = pool.contexts[0].index_select(1, at), pool.groups[0].index_select(1, at)
        return cls(places, places, x, groups, pool.key)

    def hashes(self, t: int, rewards: Mapping[int, float]) -> list[tuple[int, int, int]]:
        """Returns the hashes of picks of round t with rewards by place; see `logs.schema`."""
        contexts = self.of(list(rewards))[0][0].numpy(force=True)
        return [
            pick_hashes(t, self.pool, place, reward, x)
            for (place, reward), x in zip(rewards.items(), contexts, strict=True)
        ]

    def of(self, places: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Returns the contexts and groups of the open picks at some places, in this order."""
        if tuple(places) == self.open:
            return self.contexts, self.groups
        at = torch.tensor([self.open.index(place) for place in places])
        return self.contexts.index_select(1, at), self.groups.index_select(1, at)


class Tickets(NamedTuple):
    """The rounds that wait for rewards, as a value; a ticket is the number of a round.

    Attributes:
        picks: the picks of each waiting round by its number, oldest first.
        latest: the ticket of the last decision; None before the first decision.
    """

    picks: Mapping[int, Waiting]
    latest: int | None

    def add(self, t: int, picks: Waiting) -> Tickets:
        """Adds the picks of the latest round."""
        return Tickets({**self.picks, t: picks}, t)

    def remove(self, t: int, places: Collection[int] | None = None) -> Tickets:
        """Removes picks of a round at some places, or the round if `places` is None."""
        picks, old = dict(self.picks), self.picks[t]
        left = tuple(place for place in old.open if places is not None and place not in places)
        if left:
            picks[t] = Waiting(old.places, left, *old.of(left), old.pool)
        else:
            del picks[t]
        return Tickets(picks, self.latest)

    def give_up(self, rounds: int, patience: int | None) -> Tickets:
        """Removes the rounds that lie more than `patience` rounds before round number `rounds`."""
        first = 0 if patience is None else rounds - patience
        if next(iter(self.picks), first) >= first:
            return self
        return Tickets({t: pick for t, pick in self.picks.items() if t >= first}, self.latest)

    def rewards(self, t: int, given: Any, candidate: Any) -> dict[int, float]:
        """Returns the rewards of picks of a round by place.

        Args:
            t: a round that waits for rewards.
            given: one reward, a list with the rewards of all picks in order of preference, or a
                mapping from places to rewards.
            candidate: the place of the candidate that gave the reward; None for a single pick, a
                list or a mapping.

        Raises:
            FairbanditError: rewards that are not finite, a wrong number of rewards, or a candidate
                that does not wait for a reward.
        """
        places, waiting, *_ = self.picks[t]
        rewards = given.tolist() if hasattr(given, "tolist") else given
        if candidate is not None:
            rewards = {inputs.whole(candidate, "candidate"): given}
        elif len(places) == 1 and not isinstance(rewards, Mapping):
            rewards = {places[0]: given}
        elif isinstance(rewards, (list, tuple)) and len(rewards) == len(places):
            rewards = dict(zip(places, rewards, strict=True))
        if not isinstance(rewards, Mapping) or not rewards:
            raise FairbanditError(
                f"ticket {t} has {len(places)} picks: name the candidate of a reward, "
                f"update(reward, ticket, candidate={places[0]}), or give a list with all rewards "
                f"in the order of decision.picks; got {shown(given)}"
            )
        if wrong := [place for place in rewards if place not in waiting]:
            raise FairbanditError(
                f"candidate {shown(wrong[0])} of ticket {t} does not wait for a reward; waiting "
                f"candidates: {', '.join(map(str, waiting))}"
            )
        return {int(place): inputs.number(reward, "reward") for place, reward in rewards.items()}

    def find(self, given: Any) -> int:
        """Returns the round of a ticket.

        Raises:
            FairbanditError: a ticket that does not wait for a reward.
        """
        try:
            t = operator.index(given)
        except TypeError:
            t = 0
        if t not in self.picks:
            waiting = ", ".join(map(str, list(self.picks)[:SHOWN])) or "none"
            ellipsis = ", …" if len(self.picks) > SHOWN else ""
            raise FairbanditError(
                f"ticket {shown(given)} does not wait for a reward: its reward was reported or "
                f"dropped, or the ticket does not exist; waiting tickets: {waiting}{ellipsis}"
            )
        return t

    def outcomes(self, t: int, rewards: Mapping[int, float]) -> Outcomes:
        """Returns the outcomes of picks of round t from their rewards by place."""
        given = torch.from_numpy(np.array([list(rewards.values())]))  # faster than torch.tensor
        rounds = torch.from_numpy(np.full(len(rewards), t))
        return Outcomes(rounds, *self.picks[t].of(list(rewards)), given)

    def state(self, features: int) -> dict[str, Any]:
        """Returns the waiting rounds as plain tensors and numbers."""
        empty = torch.zeros(1, 0, features, dtype=torch.float64)
        rounds = self.picks.values()
        return {
            "latest": self.latest,
            "tickets": list(self.picks),
            "places": [list(picks.places) for picks in rounds],
            "waiting": [list(picks.open) for picks in rounds],
            "pools": [picks.pool for picks in rounds],
            "groups": [group for picks in rounds for group in picks.groups[0].tolist()],
            "contexts": torch.cat([empty, *(picks.contexts for picks in rounds)], 1),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any], problem: Problem) -> Self:
        """Restores the tickets of a problem from their state.

        Raises:
            ValueError: an invalid state.
        """
        read, empty = msgspec.convert(state, _STATE), problem.zeros(1, 0, problem.features)
        widths, tickets = [len(places) for places in read["waiting"]], read["tickets"]
        groups = torch.tensor(state["groups"], dtype=torch.int64)[None]
        parts = (part.split(widths, 1) for part in (fitted(state["contexts"], empty), groups))
        rows = zip(read["places"], read["waiting"], *parts, read["pools"], strict=True)
        picks = [Waiting(a, b, x.clone(), g.clone(), pool) for a, b, x, g, pool in rows]
        late = max(tickets, default=0) > (read["latest"] or 0)
        if late or not within(groups, 0, problem.groups - 1):
            raise ValueError("its waiting decisions do not fit each other")
        return cls(dict(zip(tickets, picks, strict=True)), read["latest"])
