"""The state of an agent and its log: an event is committed once its line is complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from os import PathLike
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakSet

import torch
from msgspec.structs import replace

from fairbandit.agent import fold, journal, notes, saving
from fairbandit.agent.pools import Reader
from fairbandit.agent.state import State, with_groups
from fairbandit.errors import FairbanditError
from fairbandit.logs import Floats, Ints
from fairbandit.logs.chain import LogFile, encoded, now
from fairbandit.logs.events import (
    SCHEMA,
    Decided,
    Event,
    Header,
    Observed,
    Offered,
    Refreshed,
    check_label,
)
from fairbandit.notices import remark
from fairbandit.policy.policy import Policy
from fairbandit.version import VERSION

P = ParamSpec("P")
T = TypeVar("T")

_ledgers: WeakSet[Ledger] = WeakSet()


def call(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Makes a method hold the lock of its ledger and run in inference mode."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        ledger: Ledger = self._ledger
        with ledger.lock, torch.inference_mode():
            if ledger.next is not None:
                ledger.settle()
            return method(self, *args, **kwargs)

    return call


class Ledger:
    """The state of an agent, which each call replaces at its end, and the log of its events.

    `next` is the state after a call whose lines are being appended, and None between calls.
    """

    def __init__(self, policy: Policy, reader: Reader, state: State) -> None:
        self.policy, self.reader, self.state = policy, reader, state
        self.next: State | None = None
        self.log: LogFile | None = None
        self._contexts = True
        torch.set_num_threads(1)
        self.renew_locks()

    def renew_locks(self) -> None:
        """Makes new locks; in a fork, threads that no longer exist may hold the old ones."""
        self.lock, self.writing = RLock(), RLock()
        _ledgers.add(self)

    def apply(self, event: Event) -> None:
        """Applies an event, and commits it."""
        before = self.state
        self.commit(before, fold.apply(self.policy, before, event), event)

    def read(self, contexts: Any, groups: Any) -> tuple[State, Floats, Ints]:
        """Reads a pool: the state with its groups, its contexts, (K, d), and group numbers."""
        x, labels = self.reader.pool(contexts, groups)
        state, codes = with_groups(self.policy, self.state, labels)
        return state, x, codes

    def commit(self, before: State, state: State, *events: Event) -> None:
        """Ends a call: assigns a new state, after the state `before` at its start.

        The call is committed once its lines in the log are complete. After an earlier interrupt,
        the agent is unchanged; after a later interrupt, the next call does the assignment. A call
        of an agent with a log goes through these states:

            state = before, next = None     nothing was done
            state = before, next = after    the lines are being appended; the call is done if the
                                            file ends where `after` says, and is void otherwise
            state = after, next = after     the call is done
            state = after, next = None      the same
        """
        if self.state is not before:
            raise FairbanditError("the agent was called from within one of its own calls")
        start = before.workers[before.worker].log
        if self.log is not None and start is not None:
            if state.groups is not before.groups:
                for group in [*state.groups.values()][len(before.groups) :]:
                    check_label(group.spelling)
            at, time, data = start, now(), b""
            for event in events:
                if not self._contexts and isinstance(event, Decided | Offered | Observed):
                    event = replace(event, contexts=None)
                line, at = encoded(event, at, time)
                data += line
            state = self.next = state.with_own(log=at)
            self.log.append(data, start.end)
        elif start is not None:
            state = state.with_own(log=None)  # the log lacks this call
        self.state = state
        self.next = None
        if state.groups is not before.groups:
            notes.new_groups(self.reader.encoder, state.groups, len(before.groups))

    def settle(self) -> None:
        """Completes or discards the previous call, if it was interrupted; see `commit`."""
        after, log = self.next, self.log
        if after and log and (at := after.own.log) and log.size == at.end:
            self.state = after
        self.next = None

    def attach(
        self, path: str | PathLike[str], digest: str | None, contexts: bool, fsync: bool
    ) -> None:
        """Makes a new or loaded agent append to a log, after the events that it lacks."""
        log = LogFile(path, fsync)
        begin = journal.resume(log, self.header(digest, contexts), self.state.own.log)
        state, last = journal.after_lines(self.policy, self.state.with_own(log=begin), log.path)
        if last not in (None, digest):
            raise FairbanditError(
                f"{log.path} goes on from a saved agent whose file has the SHA-256 {last}; load "
                "this file"
            )
        at = state.own.log
        assert at is not None
        if repeated := at.line - begin.line:
            remark(f"{log.path}: the agent repeats {repeated:,} lines, and goes on after them")
        log.begin(at.end)
        self.state, self.log, self._contexts = state, log, contexts

    def header(self, digest: str | None = None, contexts: bool = True) -> Header:
        """Returns the header of a log that begins now."""
        return Header(
            schema=SCHEMA,
            version=VERSION,
            config=self.policy.describe(),
            options=saving.plain_options(self.state, self.reader),
            agent=digest,
            contexts=contexts,
            rounds=self.state.history.rounds,
            worker=self.state.worker,
        )

    def refresh(self, load: Callable[..., Any], path: str | PathLike[str]) -> None:
        """Takes up the state of an agent that `load` loads."""
        if self.log is None:
            raise FairbanditError("only an agent with a log can take up a saved agent")
        truth = self.state.history.problem.truth
        other = load(path, policy=self.policy, truth=truth, worker=self.state.worker)
        journal.check_settings(self.header(), other._ledger.header(), "the agent")
        state, _ = journal.after_lines(self.policy, other._ledger.state, self.log.path)
        self.commit(self.state, state, Refreshed(agent=other.digest))

    def close(self, unlock: bool = True) -> None:
        """Closes the log; a fork leaves the lock to its parent."""
        if self.log is not None:
            self.log.close(unlock)


def _renew_all() -> None:
    """In a forked process, replaces locks that lost threads may hold, and closes logs."""
    for ledger in list(_ledgers):
        ledger.renew_locks()
        ledger.next = None
        ledger.close(unlock=False)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all)
