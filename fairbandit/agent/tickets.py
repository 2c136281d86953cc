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
from fairbandit.agent.blocks import LabelledPools
from fairbandit.agent.decisions import Decision
from fairbandit.errors import FairbanditError, shown
from fairbandit.files.formats import Count, Natural, fitted, mapping, within
from fairbandit.history import Outcomes
from fairbandit.history.problem import Problem
from fairbandit.logs.schema import pick_hashes

_apart: Any = torch.unbind_copy  # rows that do not keep each other in memory

SHOWN = 10
"""The largest number of waiting tickets that a message lists."""

_PLACES = list[tuple[Natural, ...]]
_STATE = mapping(
    latest=Count | None,
    tickets=list[Count],
    rounds=list[Count],
    places=_PLACES,
    waiting=_PLACES,
    pools=list[str],
)


class Waiting(NamedTuple):
    """The picks of a round that waits for at least one reward.

    Attributes:
        places: the places of all picks in their pool, in order of preference.
        open: the places of the w picks that wait for a reward.
        contexts, groups: the contexts and groups of the open picks, (1, w, d) and (1, w).
        pool: the key of the pool's labels, see `pool_key`.
        round: the round; 0 for an opening that is not closed.
    """

    places: tuple[int, ...]
    open: tuple[int, ...]
    contexts: Tensor
    groups: Tensor
    pool: str
    round: int

    @classmethod
    def picked(
        cls, pools: LabelledPools, actions: Tensor, decisions: Sequence[Decision], first: int
    ) -> list[Self]:
        """Returns the picks of N rounds, which all wait for a reward.

        Args:
            pools: the pools of the rounds.
            actions: the picked places, (1, N, m), −1 in empty slots.
            decisions: the same picks, as decisions.
            first: the first of the rounds.
        """
        short = any(len(decision.picks) < actions.shape[2] for decision in decisions)
        at = actions.clamp(min=0) if short else actions
        contexts = torch.take_along_dim(pools.contexts, at[..., None], 2)
        groups = pools.groups.gather(2, at)
        rows = zip(decisions, _apart(contexts, 1), _apart(groups, 1), pools.keys, strict=True)
        waiting = []
        for t, ((*_, places, _), x, g, key) in enumerate(rows, first):
            if short:
                x, g = x[:, : len(places)], g[:, : len(places)]
            waiting.append(cls(places, places, x, g, key, t))
        return waiting

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
    """The rounds that wait for rewards, as a value; a ticket is the number of a decision.

    Attributes:
        picks: the picks of each waiting round by its ticket, oldest round first.
        latest: the last ticket, of a decision or an opening; None before the first.
    """

    picks: Mapping[int, Waiting]
    latest: int | None

    def add(self, tickets: Sequence[int], picks: Sequence[Waiting]) -> Tickets:
        """Adds the picks of decisions, where there are any."""
        added = {t: pick for t, pick in zip(tickets, picks, strict=True) if pick.places}
        return Tickets({**self.picks, **added}, max(tickets[-1], self.latest or 0))

    def remove(self, t: int, places: Collection[int] | None = None) -> Tickets:
        """Removes picks of a round at some places, or the round if `places` is None."""
        picks, old = dict(self.picks), self.picks[t]
        left = tuple(place for place in old.open if places is not None and place not in places)
        if left:
            contexts, groups = old.of(left)
            picks[t] = old._replace(open=left, contexts=contexts, groups=groups)
        else:
            del picks[t]
        return Tickets(picks, self.latest)

    def give_up(self, rounds: int, patience: int | None) -> Tickets:
        """Removes the rounds that lie more than `patience` rounds before round number `rounds`."""
        first = 0 if patience is None else rounds - patience
        if next((pick.round for pick in self.picks.values()), first) >= first:
            return self
        kept = {t: pick for t, pick in self.picks.items() if pick.round >= first}
        return Tickets(kept, self.latest)

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
        places, waiting = self.picks[t].places, self.picks[t].open
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
        try:
            return {int(place): inputs.number(given, "reward") for place, given in rewards.items()}
        except FairbanditError as error:
            raise FairbanditError(
                f"{error}; a ticket whose reward is not known waits until agent.drop({t})"
            ) from error

    def find(self, ticket: Any) -> int:
        """Returns the round of a ticket.

        Raises:
            FairbanditError: a ticket that does not wait for a reward.
        """
        try:
            t = operator.index(ticket)
        except TypeError:
            t = 0
        if ticket is None and self.latest is None:
            raise FairbanditError("no decision waits for a reward: none was made so far")
        if t not in self.picks:
            waiting = ", ".join(map(str, list(self.picks)[:SHOWN])) or "none"
            ellipsis = ", …" if len(self.picks) > SHOWN else ""
            raise FairbanditError(
                f"ticket {shown(ticket)} does not wait for a reward: its reward was reported or "
                f"dropped, or the ticket does not exist; waiting tickets: {waiting}{ellipsis}"
            )
        return t

    def outcomes(self, t: int, rewards: Mapping[int, float]) -> Outcomes:
        """Returns the outcomes of picks of a ticket from their rewards by place."""
        received = torch.from_numpy(np.array([list(rewards.values())]))  # faster than torch.tensor
        rounds = torch.from_numpy(np.full(len(rewards), self.picks[t].round))
        return Outcomes(rounds, *self.picks[t].of(list(rewards)), received)

    def state(self, features: int) -> dict[str, Any]:
        """Returns the waiting rounds as plain tensors and numbers."""
        empty = torch.zeros(1, 0, features, dtype=torch.float64)
        rounds = self.picks.values()
        return {
            "latest": self.latest,
            "tickets": list(self.picks),
            "rounds": [picks.round for picks in rounds],
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
        further = read["pools"], read["rounds"]
        rows = zip(read["places"], read["waiting"], *parts, *further, strict=True)
        picks = [Waiting(a, b, x.clone(), g.clone(), *rest) for a, b, x, g, *rest in rows]
        late = max(tickets, default=0) > (read["latest"] or 0)
        if late or not within(groups, 0, problem.groups - 1):
            raise ValueError("its waiting decisions do not fit each other")
        return cls(dict(zip(tickets, picks, strict=True)), read["latest"])
