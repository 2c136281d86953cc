"""The start and end of an agent's calls: a lock, inference mode, one assignment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from threading import RLock
from types import MappingProxyType
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet

import torch

from fairbandit.agent.journal import Checker, Entry
from fairbandit.agent.offers import Offers
from fairbandit.agent.tickets import Tickets
from fairbandit.errors import FairbanditError
from fairbandit.history import History
from fairbandit.logs import LogFile, Position
from fairbandit.logs.schema import Learned
from fairbandit.tables.labels import Codes

P = ParamSpec("P")
S = TypeVar("S", bound="Committing")
T = TypeVar("T")

_locked: WeakSet[Committing] = WeakSet()


class Now(NamedTuple):
    """The state of an agent between two calls, as a value.

    Attributes:
        history: the history of its policy.
        groups: all groups so far, by the normal forms of their labels.
        tickets: the decisions that wait for a reward.
        learned: the decisions from which the agent has learned.
        log: the position of the end of its log; None without a log.
        openings: the openings that are not closed, by ticket.
    """

    history: History
    groups: Codes
    tickets: Tickets
    learned: Learned
    log: Position | None = None
    openings: Mapping[int, Offers] = MappingProxyType({})

    def numbered(self, history: History) -> History:
        """The history with the candidates of open openings counted in.

        Each candidate thus has its own draws, which are addressed by its number.
        """
        if not self.openings:
            return history
        offered = sum(offers.n for offers in self.openings.values())
        return history._replace(candidates=history.candidates + offered)

    @property
    def next_ticket(self) -> int:
        """The number of the next decision: its round, or later after openings took tickets."""
        return max(self.history.rounds, self.tickets.latest or 0) + 1

    @property
    def waiting(self) -> Tickets:
        """The decisions that wait for rewards; the picks of open openings are in round 0."""
        tickets = self.tickets
        for ticket, offers in self.openings.items():
            if offers.picks:
                tickets = tickets.add([ticket], [offers.waiting(self.groups, 0)])
                tickets = tickets.remove(ticket, offers.held)
        return tickets


class Committing:
    """An object whose state is one value, which each call replaces at its end.

    Attributes:
        lock: a re-entrant lock that every call holds. Hold it to make several calls atomic.
    """

    lock: RLock
    _now: Now
    _journal: LogFile | Checker | None = None
    _written: Now | None = None  # the state once its lines are complete

    @property
    def log_hash(self) -> str | None:
        """The hash of the last line of the log; None without a log."""
        return None if self._now.log is None else self._now.log.sha256

    def _commit(self, before: Now, now: Now, *entries: Entry) -> None:
        """Ends a call: assigns the value `now`, after the value `before` at its start.

        The call is committed once its lines in the log are complete. After an earlier interrupt,
        the agent is unchanged; after a later interrupt, the next call does the assignment.
        """
        if self._now is not before:
            raise FairbanditError("the agent was called from within one of its own calls")
        if self._journal is not None and entries:
            at = before.log or Position()
            end, lines = at.end, []
            for entry in entries:
                line, at = self._journal.line(entry, at)
                lines.append(line)
            now = self._written = now._replace(log=at)
            self._journal.append(b"".join(lines), end)
        elif now.log is not None and now is not before:
            now = now._replace(log=None)  # the log lacks this call
        self._now = now
        self._written = None

    def _settle(self) -> None:
        """Completes or discards the previous call, if it was interrupted.

        A call of an agent with a log goes through these states:

            _now = before, _written = None     nothing was done
            _now = before, _written = after    the lines are being appended; the call is done if the
                                               file ends where `after` says, and is void otherwise
            _now = after, _written = after     the call is done
            _now = after, _written = None      the same
        """
        written = self._written
        if written is not None and self._journal is not None:
            if written.log is not None and self._journal.size == written.log.end:
                self._now = written
            self._written = None

    def _renew_locks(self) -> None:
        self.lock, self._writing = RLock(), RLock()
        _locked.add(self)


def call(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Makes a method lock its agent and run in inference mode."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock, torch.inference_mode():
            self._settle()
            return method(self, *args, **kwargs)

    return call


def _renew_all_locks() -> None:
    """In a forked process, replaces locks that lost threads may hold, and closes logs."""
    for agent in list(_locked):
        agent._renew_locks()
        agent._written = None
        if isinstance(agent._journal, LogFile):
            agent._journal.close()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all_locks)
