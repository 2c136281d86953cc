"""The state of an agent, a value: the fold of its events, and its memory of all decisions."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from fairbandit.agent.offers import Offers
from fairbandit.errors import FairbanditError, shown
from fairbandit.files.formats import fitted
from fairbandit.history import History
from fairbandit.logs import Floats, Ints
from fairbandit.logs.chain import Position
from fairbandit.logs.events import TICKETS, Dropped, Rewarded, Taken
from fairbandit.policy.policy import Policy
from fairbandit.streams import Streams
from fairbandit.tables.labels import Codes, coded

Told = Rewarded | Dropped | Taken
"""An event about an earlier decision."""

EMPTY: Mapping[int, Any] = MappingProxyType({})

SHOWN = 10
"""The largest number of waiting tickets that a message lists."""

CHANGED = 64
"""The most changed entries that are kept beside a small mapping of waiting decisions."""

RECENT = 4_096
"""The most items in a dictionary; more items are kept in sorted arrays of 16 bytes an item."""


def hashed(*names: tuple[object, ...]) -> list[int]:
    """Returns the 8-byte hash of each of several tuples of texts and numbers."""
    hashes = list[int]()
    for name in names:
        digest = blake2b(repr(name).encode(), digest_size=8).digest()
        hashes.append(int.from_bytes(digest, "big", signed=True))
    return hashes


class Remembered(NamedTuple):
    """A mapping from 8-byte hashes to 8-byte numbers, as a value that only grows.

    Older items are sorted arrays, (n,) each, and newer items are a small dictionary.
    """

    keys: Ints = np.zeros(0, np.int64)
    numbers: Ints = np.zeros(0, np.int64)
    recent: Mapping[int, int] = EMPTY

    def get(self, hashed: int) -> int | None:
        """Returns the number that is stored for a hash; None if the hash is unknown."""
        at = int(self.keys.searchsorted(hashed))
        if at < len(self.keys) and self.keys[at] == hashed:
            return int(self.numbers[at])
        return self.recent.get(hashed)

    def plus(self, items: Mapping[int, int]) -> Remembered:
        """Returns the mapping with further items; the number of a known hash stays."""
        recent = {**self.recent, **items}
        if len(recent) < len(self.recent) + len(items):
            recent |= self.recent
        new = self._replace(recent=recent)
        return new if len(recent) < RECENT else Remembered(*new.items)

    @property
    def items(self) -> tuple[Ints, Ints]:
        """All hashes in ascending order, and their numbers."""
        newer = np.array([*self.recent.items()], np.int64).reshape(-1, 2)
        keys, at = np.unique(np.append(self.keys, newer[:, 0]), return_index=True)
        return keys, np.append(self.numbers, newer[:, 1])[at]

    def state(self) -> dict[str, Any]:
        """Returns the items as plain data."""
        return {"items": torch.from_numpy(np.stack(self.items))}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Remembered:
        """Returns the value with a given `state`."""
        items = fitted(state, {"items": torch.zeros(2, 0, dtype=torch.int64)})["items"].numpy()
        return cls(*items.copy())


class Waiting(NamedTuple):
    """A decision that waits for at least one reward."""

    round: int  # of the decision; 0 for an opening that is not closed
    turn: int  # the number of rounds of its worker at the decision
    contexts: Floats  # of the pool, (K, d)
    codes: Ints  # the numbers of the candidates' groups, (K,)
    places: tuple[int, ...]  # of all picks in the pool, in order of preference
    open: tuple[int, ...]  # the places of the picks that wait for a reward
    recommended: tuple[int, ...] = ()  # in the shadow, places for which nobody was taken so far


class Worker(NamedTuple):
    """One of several agents that decide side by side."""

    latest: int = 0  # the last ticket of a decision or an opening
    rounds: int = 0  # the number of rounds that the worker decided or observed
    log: Position | None = None  # the end of its log; None without a log


class State(NamedTuple):
    """All that changes in an agent."""

    history: History  # of its policy
    groups: Codes  # all groups so far, by the normal forms of their labels
    patience: int | None  # how many further rounds of its worker a decision waits; None: forever
    shadow: bool = False  # whether a person decides, so that only candidates who are taken count
    worker: int = 0  # the number of the worker whose events come next
    workers: Mapping[int, Worker] = MappingProxyType({0: Worker()})  # all workers by number
    # the decisions that wait for a reward, by ticket: an entry of `changed` replaces an entry of
    # `settled`, or removes it by None
    settled: Mapping[int, Waiting] = EMPTY
    changed: Mapping[int, Waiting | None] = EMPTY
    openings: Mapping[int, Offers] = EMPTY  # that are not closed, by ticket
    early: tuple[Told, ...] = ()  # events about decisions of other workers, not known yet
    learned: int = 0  # the number of rewards from which the agent has learned
    remembered: Remembered = Remembered()  # tickets of ids, rewards, and keys of picks

    @property
    def own(self) -> Worker:
        """The worker whose events come next."""
        return self.workers[self.worker]

    def with_own(self, **changes: Any) -> State:
        """Returns the state with other values of the worker whose events come next."""
        return self._replace(workers={**self.workers, self.worker: self.own._replace(**changes)})

    def of_worker(self, worker: int) -> State:
        """Returns the state before an event of a worker, who has random numbers of its own."""
        if worker == self.worker:
            return self
        problem = self.history.problem
        problem = replace(problem, streams=Streams(problem.streams.seed, [worker]))
        workers = {worker: Worker(worker * TICKETS), **self.workers}
        history = self.history._replace(problem=problem)
        return self._replace(history=history, worker=worker, workers=workers)

    @property
    def waiting(self) -> dict[int, Waiting]:
        """The decisions that wait for a reward by ticket, oldest first."""
        every = map(self.waits, {**self.settled, **self.changed})
        return {ticket: waiting for ticket, waiting in every if waiting is not None}

    def waits(self, ticket: Any) -> tuple[int, Waiting | None]:
        """Returns the number of a ticket, and its decision if it waits for a reward in time.

        A text is the id that a decision was given.
        """
        if type(ticket) is not int:
            ticket = self._number_of(ticket)
        waiting = self.changed[ticket] if ticket in self.changed else self.settled.get(ticket)
        if waiting is not None and self.patience is not None:
            rounds = self.workers[ticket // TICKETS].rounds
            waiting = waiting if waiting.turn >= rounds - self.patience else None
        return ticket, waiting

    def _number_of(self, ticket: Any) -> int:
        if isinstance(ticket, str):
            number = self.remembered.get(*hashed(("id", ticket)))
            if number is None:
                raise FairbanditError(f"no decision has the id {shown(ticket)}")
            return number
        try:
            return operator.index(ticket)
        except Exception as error:
            raise FairbanditError(
                f"ticket {shown(ticket)} does not wait for a reward: a ticket is a whole number, "
                "such as decision.ticket"
            ) from error

    def after(
        self,
        changes: Mapping[int, Waiting | None] = EMPTY,
        *,
        rounds: int = 0,
        latest: int = 0,
        **fields: Any,
    ) -> State:
        """Returns the state after further rounds of the worker, with other values of `fields`.

        `latest` is the ticket of a new decision, if there is one. `changes` are new or changed
        waiting decisions; None removes a decision. Of n waiting decisions, only the latest changes
        are copied, about √n, and all n after these changes.
        """
        own, changed = self.workers[self.worker], {**self.changed, **changes}
        own = Worker(max(own.latest, latest), own.rounds + rounds, own.log)
        workers = {**self.workers, self.worker: own}
        state = self._replace(workers=workers, changed=changed, **fields)
        if len(changed) <= CHANGED or len(changed) ** 2 <= 16 * len(self.settled):
            return state
        return state._replace(settled=state.waiting, changed={})

    @property
    def next_ticket(self) -> int:
        """The number of the next decision: its round, or later after openings took tickets."""
        own = self.workers[self.worker]
        return max(self.worker * TICKETS + own.rounds, own.latest) + 1

    @property
    def numbered(self) -> History:
        """The history with the candidates of open openings counted in.

        Each candidate thus has its own draws, which are addressed by its number.
        """
        offered = sum(offers.n for offers in self.openings.values())
        return self.history._replace(candidates=self.history.candidates + offered)

    @property
    def pending(self) -> tuple[int, ...]:
        """The tickets that wait for rewards, oldest first."""
        held = (t for t, o in self.openings.items() if len(o.picks) > len(o.held))
        return (*self.waiting, *held)

    def find(self, ticket: int) -> Waiting:
        """Returns the decision of a ticket that waits for rewards; else raises an error."""
        if (waiting := self.waits(ticket)[1]) is not None:
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
        left = tuple(place for place in offers.picks if place not in offers.held)
        return Waiting(0, 0, *offers.rows, offers.picks, left)

    def is_early(self, ticket: int) -> bool:
        """Whether the decision of a ticket may be known to another worker alone."""
        worker, alone = ticket // TICKETS, not self.worker and len(self.workers) == 1
        latest = self.workers[worker].latest if worker in self.workers else 0
        return not alone and worker != self.worker and ticket > latest


def with_groups(policy: Policy, state: State, labels: Sequence[Any]) -> tuple[State, Ints]:
    """Adds new labels to the groups of a state; returns it with the labels' group numbers."""
    codes, groups = coded(labels, state.groups)
    return (state if groups is state.groups else grown(policy, state, groups)), codes


def grown(policy: Policy, state: State, groups: Codes) -> State:
    """Returns a state that knows further groups."""
    problem = replace(state.history.problem, groups=len(groups))
    return state._replace(history=policy.grow(state.history, problem), groups=groups)
