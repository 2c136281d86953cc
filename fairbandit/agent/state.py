"""The state of an agent, a value: the fold of its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fairbandit.agent import inputs
from fairbandit.agent.offers import Offers
from fairbandit.agent.remembered import Remembered, key
from fairbandit.errors import FairbanditError, shown
from fairbandit.history import History
from fairbandit.history.problem import Problem
from fairbandit.logs import Floats, Ints, Position
from fairbandit.logs.events import About, Decided
from fairbandit.policy.policy import Policy
from fairbandit.tables.labels import Codes, coded

SHOWN = 10
"""The largest number of waiting tickets that a message lists."""


class Waiting(NamedTuple):
    """A decision that waits for at least one reward.

    Attributes:
        round: the round of the decision; 0 for an opening that is not closed.
        contexts, codes: the pool, (K, d), and the numbers of its groups, (K,).
        places: the places of all picks in the pool, in order of preference.
        open: the places of the picks that wait for a reward.
    """

    round: int
    contexts: Floats
    codes: Ints
    places: tuple[int, ...]
    open: tuple[int, ...]

    def without(self, places: Mapping[int, float]) -> tuple[int, ...]:
        """Returns the open places without some of them; another place raises an error."""
        left = tuple(place for place in self.open if place not in places)
        if len(left) + len(places) != len(self.open):
            raise FairbanditError(f"candidates {[*places]} do not all wait for a reward")
        return left


class State(NamedTuple):
    """All that changes in an agent.

    Attributes:
        history: the history of its policy.
        groups: all groups so far, by the normal forms of their labels.
        patience: for how many further rounds a decision waits for its reward; None waits forever.
        latest: the last ticket of a decision or an opening; 0 before the first.
        waiting: the decisions that wait for a reward by ticket, oldest round first.
        openings: the openings that are not closed by ticket.
        learned: the number of rewards from which the agent has learned.
        remembered: the ids of decisions with their tickets, the rewards that were learned, and the
            keys of their picks.
        log: the position of the end of the log; None without a log.
    """

    history: History
    groups: Codes
    patience: int | None
    latest: int = 0
    waiting: Mapping[int, Waiting] = MappingProxyType({})
    openings: Mapping[int, Offers] = MappingProxyType({})
    learned: int = 0
    remembered: Remembered = Remembered()
    log: Position | None = None

    @property
    def next_ticket(self) -> int:
        """The number of the next decision: its round, or later after openings took tickets."""
        return max(self.history.rounds, self.latest) + 1

    @property
    def numbered(self) -> History:
        """The history with the candidates of open openings counted in.

        Each candidate thus has its own draws, which are addressed by its number.
        """
        if not self.openings:
            return self.history
        offered = sum(offers.n for offers in self.openings.values())
        return self.history._replace(candidates=self.history.candidates + offered)

    @property
    def pending(self) -> tuple[int, ...]:
        """The tickets that wait for rewards, oldest first."""
        openings = self.openings.items()
        return (
            *self.waiting,
            *(t for t, offers in openings if len(offers.picks) > len(offers.held)),
        )

    def learned_from(self, keys: Sequence[int], items: Mapping[int, int] = {}) -> State:
        """Returns the state after rewards of picks with some keys, and other items to remember."""
        remembered = self.remembered.plus({**dict.fromkeys(keys, 0), **items})
        return self._replace(learned=self.learned + len(keys), remembered=remembered)

    def find(self, ticket: int) -> Waiting:
        """Returns the decision of a ticket that waits for rewards; else raises an error."""
        if (waiting := self.waiting.get(ticket)) is not None:
            return waiting
        pending = self.pending
        if ticket not in pending:
            tickets = ", ".join(map(str, pending[:SHOWN])) or "none"
            ellipsis = ", …" if len(pending) > SHOWN else ""
            raise FairbanditError(
                f"ticket {shown(ticket)} does not wait for a reward: its reward was reported or "
                f"dropped, or the ticket does not exist; waiting tickets: {tickets}{ellipsis}"
            )
        offers = self.openings[ticket]
        waiting = Waiting(0, *offers.rows, offers.picks, offers.picks)
        return waiting._replace(open=waiting.without(offers.held))

    def number_of(self, ticket: Any) -> int:
        """Returns a ticket as a number; a text is the id that a decision was given."""
        if isinstance(ticket, str):
            number = self.remembered.get(key("id", ticket))
            if number is None:
                raise FairbanditError(f"no decision has the id {shown(ticket)}")
            return number
        return inputs.ticket(ticket)

    def named(self, event: Decided, id: Any, about: Any) -> Decided:
        """Returns a new decision with the caller's id and remarks."""
        if id is not None and (not isinstance(id, str) or not id):
            raise FairbanditError(f"id: expected a text, as in str(id), got {shown(id)}")
        if id is not None and self.remembered.get(key("id", id)) is not None:
            raise FairbanditError(f"the id {shown(id)} belongs to an earlier decision")
        try:
            about = msgspec.convert(about, dict[str, About] | None)
        except msgspec.ValidationError as error:
            raise FairbanditError(f"about: {error}; got {shown(about)}") from error
        return msgspec.structs.replace(event, id=id, about=about)

    def repeats(self, ticket: int, reward: Any, candidate: Any) -> bool:
        """Whether rewards of a decision that no longer waits for them are those it had.

        Raises:
            FairbanditError: the decision had other rewards.
        """
        waiting = self.waiting.get(ticket)
        if waiting is not None and waiting.open == waiting.places:
            return False
        rewards = reward.tolist() if hasattr(reward, "tolist") else reward
        rewards = {candidate: rewards} if candidate is not None else rewards
        what = "place" if isinstance(rewards, Mapping) else "slot"
        if waiting is not None and (what == "slot" or not {*waiting.open}.isdisjoint(rewards)):
            return False
        if not isinstance(rewards, Mapping):
            rewards = dict(enumerate(rewards if isinstance(rewards, (list, tuple)) else [rewards]))
        bits = [self.remembered.get(key(ticket, what, place)) for place in rewards]
        if not bits or None in bits:
            return False
        known = np.array(bits, np.int64).view(np.float64).tolist()
        for before, value in zip(known, rewards.values(), strict=True):
            if inputs.number(value, "reward") != before:
                raise FairbanditError(
                    f"ticket {ticket} does not wait for a reward: its reward was reported, and was "
                    f"{before:g}; got {shown(value)}"
                )
        return True

    def on(self, history: History, waiting: dict[int, Waiting], latest: int = 0) -> State:
        """Returns the state after further rounds, without decisions that waited too long."""
        if self.patience is not None:
            first = history.rounds - self.patience
            late = [ticket for ticket, decision in waiting.items() if decision.round < first]
            for ticket in late:
                del waiting[ticket]
        latest = max(self.latest, latest)
        return self._replace(history=history, waiting=waiting, latest=latest)


def first_state(policy: Policy, problem: Problem, groups: Codes, patience: int | None) -> State:
    """Returns the state before the first event; a group that the truth lacks raises an error."""
    if "truth" in policy.rank.needs:
        inputs.check_known(problem.truth, groups, 0)
    return State(policy.init(problem), groups, patience)


def with_groups(policy: Policy, state: State, labels: Sequence[Any]) -> tuple[State, Ints]:
    """Adds new labels to the groups of a state; returns it with the labels' group numbers.

    Raises:
        FairbanditError: an invalid label, or a group that the truth does not know.
    """
    codes, groups = coded(labels, state.groups)
    return (state if groups is state.groups else grown(policy, state, groups)), codes


def grown(policy: Policy, state: State, groups: Codes) -> State:
    """Returns a state that knows further groups."""
    problem = state.history.problem
    if "truth" in policy.rank.needs:
        inputs.check_known(problem.truth, groups, len(state.groups))
    history = policy.grow(state.history, replace(problem, groups=len(groups)))
    return state._replace(history=history, groups=groups)
