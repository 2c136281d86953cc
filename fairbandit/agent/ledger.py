"""The state of an agent and its log: an event is committed once its line is complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from os import PathLike
from threading import RLock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

import torch
from msgspec.structs import replace

from fairbandit.agent import fold, notes
from fairbandit.agent.explaining import Explanation, explanation
from fairbandit.agent.inputs import whole
from fairbandit.agent.journal import resume
from fairbandit.agent.learning import after_log
from fairbandit.agent.pools import Reader, rewards_of
from fairbandit.agent.state import State, with_groups
from fairbandit.errors import FairbanditError
from fairbandit.logs import Ints, Log, LogFile
from fairbandit.logs.chain import encoded, now, of_line
from fairbandit.logs.events import (
    SCHEMA,
    Decided,
    Event,
    Header,
    Observed,
    Offered,
    Rewarded,
    check_label,
)
from fairbandit.notices import remark
from fairbandit.policy.policy import Policy
from fairbandit.version import VERSION

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="HasLedger")

_ledgers: WeakSet[Ledger] = WeakSet()


class HasLedger(Protocol):
    """An object whose calls change a ledger."""

    _ledger: Ledger


def call(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Makes a method hold the lock of its ledger and run in inference mode."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        ledger = self._ledger
        with ledger.lock, torch.inference_mode():
            if ledger.next is not None:
                ledger.settle()
            return method(self, *args, **kwargs)

    return call


class Ledger:
    """The state of an agent, which each call replaces at its end, and the log of its events.

    Attributes:
        policy: the policy that decides.
        reader: reads pools.
        state: the state between two calls.
        next: the state after a call whose lines are being appended; else None.
        log: the file of the log; None without a log.
        lock: the lock that every call holds.
    """

    def __init__(self, policy: Policy, reader: Reader, state: State) -> None:
        self.policy, self.reader, self.state = policy, reader, state
        self.next: State | None = None
        self.log: LogFile | None = None
        self._contexts = True
        self.renew_locks()

    def renew_locks(self) -> None:
        """Makes new locks; in a fork, threads that no longer exist may hold the old ones."""
        self.lock, self.writing = RLock(), RLock()
        _ledgers.add(self)

    def with_groups(self, labels: Sequence[Any]) -> tuple[State, Ints]:
        """Returns the state with the groups of a pool, and their numbers; notes new groups."""
        before = self.state
        state, codes = with_groups(self.policy, before, labels)
        if state is not before:
            notes.new_groups(self.reader.encoder, state.groups, len(before.groups))
        return state, codes

    def apply(self, event: Event) -> None:
        """Applies an event, and commits it."""
        before = self.state
        state = fold.apply(self.policy, before, event)
        if state.groups is not before.groups:
            notes.new_groups(self.reader.encoder, state.groups, len(before.groups))
        self.commit(before, state, event)

    def report(self, reward: Any, ticket: Any, candidate: Any) -> None:
        """Applies rewards of a decision; see `Agent.update`."""
        before = self.state
        if ticket is None and not before.latest:
            raise FairbanditError("no decision waits for a reward: none was made so far")
        t = before.number_of(before.latest if ticket is None else ticket)
        if before.repeats(t, reward, candidate):
            remark(f"the reward of ticket {t} was reported before, and changes nothing")
            return
        waiting = before.find(t)
        rewards = rewards_of(waiting.places, waiting.open, t, reward, candidate)
        self.apply(Rewarded(ticket=t, rewards=rewards))

    def explained(self, contexts: Any, groups: Any, picks: int) -> Explanation:
        """Explains the decision about a pool; see `Agent.explain`."""
        x, labels = self.reader.pool(contexts, groups)
        state, codes = self.with_groups(labels)
        m = min(whole(picks, "picks", 1), len(x))
        return explanation(self.policy, state, self.lock, self.reader, (x, codes), m)

    def learn(self, log: Log) -> None:
        """Learns from the decisions of any policy; see `Agent.from_log`."""
        with torch.inference_mode():
            self.state = after_log(self.policy, self.state, log)

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
        if self.log is not None and before.log is not None:
            for group in [*state.groups.values()][len(before.groups) :]:
                check_label(group.spelling)
            at, time, data = before.log, now(), b""
            for event in events:
                if not self._contexts and isinstance(event, Decided | Offered | Observed):
                    event = replace(event, contexts=None)
                line, at = encoded(event, at, time)
                data += line
            state = self.next = state._replace(log=at)
            self.log.append(data, before.log.end)
        elif state.log is not None:
            state = state._replace(log=None)  # the log lacks this call
        self.state = state
        self.next = None

    def settle(self) -> None:
        """Completes or discards the previous call, if it was interrupted; see `commit`."""
        after, log = self.next, self.log
        if after and after.log and log and log.size == after.log.end:
            self.state = after
        self.next = None

    def attach(
        self,
        path: str | PathLike[str],
        options: Mapping[str, Any],
        digest: str | None,
        contexts: bool,
        fsync: bool,
    ) -> None:
        """Makes a new or loaded agent append to a log, after the events that it lacks.

        Args:
            path: the file, or a folder for a new file.
            options: the agent's options as plain data.
            digest: the SHA-256 of the file from which the agent was loaded.
            contexts, fsync: see `Agent`.
        """
        log = LogFile(path, fsync)
        header = Header(
            schema=SCHEMA,
            version=VERSION,
            config=self.policy.describe(),
            options=dict(options),
            agent=digest,
            contexts=contexts,
            rounds=self.state.history.rounds,
        )
        at, lines = resume(log, header, self.state.log)
        before, state = at.line, self.state
        with torch.inference_mode():
            for line in lines:
                with of_line(line.where):
                    state = fold.apply(self.policy, state, line.event)  # type: ignore[arg-type]
                at = line.at
        if repeated := at.line - before:
            remark(f"{log.path}: the agent repeats {repeated:,} lines, and goes on after them")
        log.begin(at.end)
        self.state, self.log, self._contexts = state._replace(log=at), log, contexts

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
