"""The fold of events: the state of an agent after the lines of its log, or of several logs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairbandit.agent.files import NOT_ITS_LOG, check_settings
from fairbandit.agent.inputs import Pool
from fairbandit.agent.offers import Offers
from fairbandit.agent.rounds import observed
from fairbandit.agent.state import State, Told, with_groups
from fairbandit.agent.steps import closed, decide, moved, offered, opened, told
from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import SUMS
from fairbandit.logs import events as logged
from fairbandit.logs import own_lines
from fairbandit.logs.chain import LoggedLine, holds, of_line
from fairbandit.notices import remark
from fairbandit.policy.policy import Policy


def apply(policy: Policy, state: State, event: logged.Event, *, check: bool = False) -> State:
    """Returns the state after an event; with `check`, every decision is made again and compared."""
    if isinstance(event, Told):
        return told(policy, state, event, state.waits(event.ticket)[1])
    if isinstance(event, logged.Closed):
        return closed(policy, state, event.ticket)
    if isinstance(event, logged.Opened):
        _check("ticket", state.next_ticket, event.ticket)
        problem, law = state.history.problem, (event.places, event.count, event.candidates)
        openings = {**state.openings, event.ticket: Offers.new(problem, event.name, *law)}
        return state.after(latest=event.ticket, openings=openings)
    assert not isinstance(event, logged.Refreshed)
    if event.contexts is None:
        raise FairbanditError("contexts are left out, so the line cannot be replayed")
    if isinstance(event, logged.Observed):
        return observed(policy, state, event)
    state, codes = with_groups(policy, state, event.groups)
    if isinstance(event, logged.Offered):
        state, would = offered(policy, state, event.ticket, event.contexts, codes)
        _check("taken", would.taken, event.taken)
        _check("probability", would.probability, event.probability)
        return state
    _check("ticket", state.next_ticket, event.ticket)
    if check:
        pool, picks = Pool(event.contexts, event.groups), event.places or len(event.picks)
        state, (decided,) = decide(policy, state, state.groups, [pool], [codes], picks)
        _check("picks", decided.picks, event.picks)
        _check("probabilities", decided.probabilities, event.probabilities)
    else:
        state = opened(policy, state, [len(codes)], event.contexts, codes)
    state = moved(policy, state, [event])
    for report in (reports := state.early):
        if report.ticket == event.ticket:
            state = state._replace(early=tuple(r for r in reports if r.ticket != event.ticket))
            state = _fitting(policy, state, report, f"worker {state.worker}")
    return state


def after_line(policy: Policy, state: State, line: LoggedLine, check: bool = False) -> State:
    """Returns the state after a line of its worker's log; a header or a `Refreshed` is skipped."""
    with of_line(line.where), torch.inference_mode():
        if not isinstance(line.event, logged.Header | logged.Refreshed):
            state = _fitting(policy, state, line.event, line.where, check)
    return state.with_own(log=line.at)


def _fitting(policy: Policy, state: State, event: Any, where: str, check: bool = False) -> State:
    """Returns the state after an event of a log, beside other workers.

    A worker does not know what others reported about its decisions. An event about a decision that
    no longer fits is therefore left out, with a notice, if there are other workers.
    """
    try:
        return apply(policy, state, event, check=check)
    except FairbanditError as error:
        if len(state.workers) == 1 or not isinstance(event, Told):
            raise
        remark(f"{where}: the event is left out: {error}")
        return state


def _check(name: str, value: Any, written: Any) -> None:
    """Raises an error for a value that differs in the replay, where floats may be rounded.

    Pools that were decided together are decided one by one in the replay.
    """
    same = value == written
    if not same and name.startswith("probabilit"):
        parts = np.atleast_1d(value), np.atleast_1d(written)
        same = len(parts[0]) == len(parts[1]) and np.abs(parts[0] - parts[1]).max() <= SUMS
    if not same:
        raise FairbanditError(f"{name} is {value} in the replay, and {written} in the log")


def after_lines(
    policy: Policy, state: State, path: Path, stop: float = math.inf
) -> tuple[State, str | None]:
    """Returns a state after the lines of its worker's log that it lacks, before line `stop`.

    Also returns the hash of the last saved agent that the worker took up in these lines.
    """
    at, last = state.own.log, None
    if at is not None and not holds(path, at):
        raise FairbanditError(f"{path} {NOT_ITS_LOG}")
    for line in own_lines(path, at=at):
        if line.at.line >= stop:
            break
        if isinstance(line.event, logged.Refreshed):
            last = line.event.agent
        state = after_line(policy, state, line)
    return state, last


def merged(policy: Policy, state: State, logs: Sequence[Any], header: logged.Header) -> State:
    """Returns a state after the lines of several workers' logs that it lacks, in order of time.

    The order of each log is kept.
    """
    rows, first = dict[int, Iterator[tuple[int, LoggedLine]]](), state.worker
    for path in map(Path, logs):
        head = next(own_lines(path))
        assert isinstance(head.event, logged.Header)
        worker = head.event.worker
        check_settings(head.event, header, str(path))
        if worker in rows:
            raise FairbanditError(f"{path} is a second log of worker {worker}")
        state = state.of_worker(worker)
        at = state.own.log or head.at
        if not holds(path, at):
            raise FairbanditError(f"{path} is not the log that worker {worker} wrote before")
        state = state.with_own(log=at)
        rows[worker] = zip(repeat(worker), own_lines(path, at=at), strict=False)
    for worker, line in heapq.merge(*rows.values(), key=lambda r: (r[1].event.time or "", r[0])):
        if len(rows) > 1 and isinstance(line.event, logged.Opened | logged.Offered | logged.Closed):
            raise FairbanditError(f"{line.where}: an opening cannot be merged with other logs")
        state = after_line(policy, state.of_worker(worker), line)
    if state.early:
        n = len({report.ticket for report in state.early})
        remark(f"{n:,} decisions whose rewards are known are in none of the logs")
    return state.of_worker(first)
