"""The state of an agent and its log: an event is committed once its line is complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from operator import itemgetter
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakSet

import torch
from msgspec.structs import replace

from fairbandit.agent import files, fold, inputs
from fairbandit.agent.state import State
from fairbandit.errors import FairbanditError, did_you_mean, shown
from fairbandit.history import Problem
from fairbandit.logs import events as logged
from fairbandit.logs.chain import LogFile, Position, chained, holds, now
from fairbandit.notices import listed, remark
from fairbandit.policy.build import build_saved
from fairbandit.policy.policy import Policy
from fairbandit.streams import Streams
from fairbandit.tables.labels import is_unknown
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
    """The state of an agent, which each call replaces at its end, and the log of its events."""

    log: LogFile | None = None
    next: State | None = None  # after a call whose lines are being appended
    digest: str | None = None  # the SHA-256 of the file that was loaded or taken up
    origin: str | None = None  # the `digest` of the agent that wrote this file
    _contexts = _rows = True
    _every: int | None = None
    _saved_line = 0

    def __init__(
        self,
        policy: Policy,
        features: Any,
        groups: Any = (),
        seed: Any = 0,
        exploration: Any = 1.0,
        reward: str | None = None,
        patience: Any = None,
        unknown: Any = (),
        shadow: bool = False,
    ) -> None:
        if not isinstance(policy, Policy):
            raise FairbanditError(
                f"expected a fairbandit.Policy, got {shown(policy)}; see Agent.from_config"
            )
        self.policy = policy
        self.reader, codes = inputs.reader(features, reward, groups, unknown)
        problem = Problem(
            features=self.reader.features,
            groups=len(codes),
            streams=Streams(inputs.whole(seed, "seed"), [0]),
            exploration=inputs.number(exploration, "exploration", least=0),
        )
        patience = None if patience is None else inputs.whole(patience, "patience")
        self.state = State(self.policy.init(problem), codes, patience, shadow)
        torch.set_num_threads(1)
        self.renew_locks()
        self._note_groups(0)

    @classmethod
    def load(cls, path: Path, policy: Policy | None = None, worker: int | None = None) -> Self:
        """Loads a saved agent, without a log; see `Agent.load`."""
        with files.reading(path) as saved:
            policy = build_saved(saved["config"], policy)
            ledger = cls(policy, **files.options(saved["options"]))
            ledger.state = files.restored(saved, ledger.state)
        ledger.digest, ledger.origin = saved["digest"], saved.get("agent")
        if worker is not None:
            ledger.state = ledger.state.of_worker(inputs.whole(worker, "worker", most=inputs.MOST))
        return ledger

    def renew_locks(self) -> None:
        """Makes new locks; in a fork, threads that no longer exist may hold the old ones."""
        self.lock, self.writing = RLock(), RLock()
        _ledgers.add(self)

    def apply(self, event: logged.Event) -> None:
        """Applies an event, and commits it."""
        before = self.state
        self.commit(before, fold.apply(self.policy, before, event), event)

    def commit(self, before: State, state: State, *events: logged.Event) -> None:
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
                    logged.check_label(group.spelling)
            at, time, data = start, now(), b""
            for event in events:
                if isinstance(event, logged.Decided | logged.Offered | logged.Observed):
                    if not self._contexts:
                        event = replace(event, contexts=None, rows=None)
                    elif not self._rows and event.rows is not None:
                        event = replace(event, rows=None)
                line, at = chained(logged.body_of(event), at, time)
                data += line
            worker = state.workers[state.worker]._replace(log=at)
            workers = {**state.workers, state.worker: worker}
            state = self.next = state._replace(workers=workers)
            self.log.append(data, start.end)
        elif start is not None:
            state = state.with_own(log=None)  # the log lacks this call
        self.state = state
        self.next = None
        if state.groups is not before.groups:
            self._note_groups(len(before.groups))
        if self._every is not None:
            self._save_beside()

    def _note_groups(self, first: int) -> None:
        """Notes groups that the table of the encoder lacks, from number `first` on."""
        new, encoder = [*self.state.groups][first:], self.reader.encoder
        if any(map(is_unknown, new)):
            remark(
                "people whose group is unknown are one more group, and are ranked among themselves "
                "(docs/unknown.md); an audit of the log gives their selection rate"
            )
        labels = encoder.labels if encoder else ()
        for label in new if labels else ():
            if label not in labels:
                guess = did_you_mean(label, labels)
                remark(f"new group {label!r}{guess}: the encoder's table has {listed(labels)}")

    def settle(self) -> None:
        """Completes or discards the previous call, if it was interrupted; see `commit`."""
        after, log = self.next, self.log
        if after and log and (at := after.own.log) and log.size == at.end:
            self.state = after
        self.next = None

    def attach(
        self,
        path: str | PathLike[str] | None,
        log_contexts: bool = True,
        log_rows: bool = True,
        fsync: bool = False,
        save_every: int | None = None,
    ) -> None:
        """Makes a new or loaded agent append to a log, after the events that it lacks.

        The agent goes on from the file beside the log, if it saved itself there.
        """
        every = None if save_every is None else inputs.whole(save_every, "save_every", 1)
        if path is None:
            if every is None:
                return
            raise FairbanditError("save_every: expected a log=…, from which a saved agent goes on")
        log = LogFile(path, fsync)
        begin = files.resume(log, self.header(log_contexts), self.state.own.log)
        state = self.state.with_own(log=begin)
        if every is not None and (saved := self._saved_beside(log.path)):
            state, begin = max((state, begin), saved, key=itemgetter(1))
        state, last = fold.after_lines(self.policy, state, log.path)
        if last not in (None, self.digest):
            raise FairbanditError(
                f"{log.path} goes on from a saved agent whose file has the SHA-256 {last}; load "
                "this file"
            )
        at = state.own.log or begin
        if repeated := at.line - begin.line:
            remark(f"{log.path}: the agent repeats {repeated:,} lines, and goes on after them")
        log.begin(at.end)
        self.state, self.log, self._every = state, log, every
        self._contexts, self._rows, self._saved_line = log_contexts, log_rows, begin.line

    def _saved_beside(self, log: Path) -> tuple[State, Position] | None:
        """Returns the state saved beside the log with its position; None if no file is usable."""
        if not beside(log).exists():
            return None
        try:
            saved = self.load(beside(log), self.policy)
        except FairbanditError as error:
            remark(f"{error}; the agent repeats its log without this file")
            return None
        at = saved.state.own.log
        return (saved.state, at) if saved.origin == self.digest and at and holds(log, at) else None

    def _save_beside(self) -> None:
        """Saves the agent beside its log, if enough lines were added; a failure is noted."""
        at, log, every = self.state.own.log, self.log, self._every
        if at and log and every and at.line - self._saved_line >= every:
            self._saved_line = at.line
            try:
                self.save(beside(log.path), files.plain(self.state, self.reader))
            except FairbanditError as error:
                remark(f"{error}; the log holds everything, and the agent goes on")

    def save(self, path: Path, plain: Mapping[str, Any]) -> None:
        """Writes the agent to a file; `plain` is the result of `files.plain`."""
        files.write(path, {"config": self.policy.describe(), "agent": self.digest, **plain})

    def header(self, contexts: bool = True) -> logged.Header:
        """Returns the header of a log that begins now."""
        return logged.Header(
            schema=logged.SCHEMA,
            version=VERSION,
            config=self.policy.describe(),
            options=files.plain_options(self.state, self.reader),
            agent=self.digest,
            contexts=contexts,
            rounds=self.state.history.rounds,
            worker=self.state.worker,
        )

    def refresh(self, path: Path) -> None:
        """Takes up the state of a saved agent."""
        if self.log is None:
            raise FairbanditError("only an agent with a log can take up a saved agent")
        other = self.load(path, self.policy, self.state.worker)
        files.check_settings(self.header(), other.header(), "the agent")
        state, _ = fold.after_lines(self.policy, other.state, self.log.path)
        assert other.digest is not None
        self.commit(self.state, state, logged.Refreshed(agent=other.digest))
        self.digest = other.digest

    def close(self, unlock: bool = True) -> None:
        """Closes the log; a fork leaves the lock to its parent."""
        if self.log is not None:
            self.log.close(unlock)


def beside(log: Path) -> Path:
    """Returns the file beside a log in which an agent saves itself."""
    return log.with_name(f"{log.name}.agent")


def _renew_all() -> None:
    """In a forked process, replaces locks that lost threads may hold, and closes logs."""
    for ledger in list(_ledgers):
        ledger.renew_locks()
        ledger.next = None
        ledger.close(unlock=False)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all)
