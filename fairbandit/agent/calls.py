"""How an agent's calls begin and end: a lock, inference mode, one core, and one assignment."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet, ref

import torch

from fairbandit.agent.journal import Checker, Entry
from fairbandit.agent.tickets import Tickets
from fairbandit.errors import FairbanditError
from fairbandit.labels import Codes
from fairbandit.logs import LogFile, Position
from fairbandit.logs.schema import Learned
from fairbandit.modes import inferring
from fairbandit.past import Knowledge

P = ParamSpec("P")
S = TypeVar("S", bound="Committing")
T = TypeVar("T")

_locked: WeakSet[Committing] = WeakSet()
_gate = RLock()


class Now(NamedTuple):
    """All that an agent is between two calls, as a value.

    Attributes:
        known: what its policy knows.
        groups: all groups so far, by the normal forms of their labels.
        tickets: the decisions that wait for a reward.
        learned: the decisions that it has learned from.
        log: where its log ends; None without a log.
    """

    known: Knowledge
    groups: Codes
    tickets: Tickets
    learned: Learned
    log: Position | None = None


class Committing:
    """An object that is one value, which each call ends by replacing.

    Attributes:
        lock: a re-entrant lock that every call holds. Hold it to make several calls one.
    """

    lock: RLock
    _now: Now
    _journal: LogFile | Checker | None = None
    _written: Now | None = None  # what the agent is once its line in the log is whole

    @property
    def log_hash(self) -> str | None:
        """The hash of the last line of its log; None without a log."""
        return None if self._now.log is None else self._now.log.sha256

    def _commit(self, before: Now, now: Now, entry: Entry | None = None) -> None:
        """Ends a call that began with one value by assigning the next one.

        The whole line in the log is the commit: what interrupts before it has changed nothing, and
        what interrupts after it leaves the assignment to the next call.
        """
        if self._now is not before:
            raise FairbanditError("the agent was called from within one of its own calls")
        if self._journal is not None and entry is not None:
            at = before.log or Position()
            data, position = self._journal.line(entry, at)
            now = self._written = now._replace(log=position)
            self._journal.append(data, at.end)
        elif now.log is not None and now is not before:
            now = now._replace(log=None)  # the agent has done something that its log lacks
        self._now = now
        self._written = None

    def _settle(self) -> None:
        """Finishes what an interrupt has left of the call before.

        A call of an agent with a log goes through these states:

            _now = before, _written = None     nothing was done
            _now = before, _written = after    the line is being appended: if the file ends where
                                               `after` says, the call is done, else it never was
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


class _Running:
    """What the calls of all agents that run now share: torch's number of threads before them.

    Only these calls refer to it, so that it is gone after the last of them, however that one ends.
    """

    threads: int


_running: Callable[[], _Running | None] = lambda: None  # noqa: E731


def call(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A call that other threads wait for, in inference mode and on one core: pools are small."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        global _running
        with self.lock:
            with _gate:
                if (running := _running()) is None:
                    running = _Running()
                    running.threads = torch.get_num_threads()
                    _running = ref(running)
            try:
                torch.set_num_threads(1)
                self._settle()
                return inferring(True, method, self, *args, **kwargs)
            finally:
                torch.set_num_threads(running.threads)  # in C, where no interrupt comes
                del running  # a traceback keeps the variables of this call

    return call


def _renew_all_locks() -> None:
    """A forked process has no thread that would end another one's call, and no log to append to."""
    global _gate, _running
    _gate, _running = RLock(), lambda: None
    for one in list(_locked):
        one._renew_locks()
        one._written = None
        if isinstance(one._journal, LogFile):
            one._journal.close()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all_locks)
