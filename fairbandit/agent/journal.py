"""Whether a log is an agent's own, and the states that follow from the lines of logs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import torch

from fairbandit.agent import fold
from fairbandit.agent.state import State
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown
from fairbandit.logs import own_lines
from fairbandit.logs.chain import LogFile, LoggedLine, Position, encoded, holds, now, of_line
from fairbandit.logs.events import Closed, Header, Offered, Opened, Refreshed, body_of, event_of
from fairbandit.notices import remark
from fairbandit.policy.policy import Policy

_MISSING = object()
_OTHER = (
    "is not the log that this agent wrote, or the agent has decided or learned without it since; "
    "to continue a log, load its agent by Agent.load(FILE, log=...), or create an agent with the "
    "same settings"
)


def resume(file: LogFile, header: Header, saved: Position | None) -> Position:
    """Finds the position after which an agent goes on in a log; begins an empty log."""
    first = next(own_lines(file.path, new=True), None)
    if first is None:  # a new file, or its header was cut off
        data, at = encoded(header, Position(), now())
        file.begin(0)
        file.append(data, 0)
        return at
    assert isinstance(first.event, Header)
    same = first.event.agent == header.agent if saved is None else holds(file.path, saved)
    if saved is None or not same:
        check_settings(first.event, header, str(file.path), groups=saved is None and same)
    if first.event.worker != header.worker:
        raise FairbanditError(
            f"{file.path} is a log of worker={first.event.worker}, and the agent has "
            f"worker={header.worker}; each worker begins a log of its own (docs/workers.md)"
        )
    if not same:
        raise FairbanditError(f"{file.path} {_OTHER}")
    return saved or first.at


def check_settings(old: Header, header: Header, name: str, groups: bool = False) -> None:
    """Raises an error that names each setting of a log that an agent does not have.

    With `groups`, both begin with the same groups, and log the same values.
    """
    new = event_of(body_of(header))
    assert isinstance(new, Header)
    options = dict(old.options)
    if isinstance(shape := options["features"], Mapping):  # in the form of this version
        options["features"] = Encoder(**shape).state()
    if not groups:
        options["groups"] = new.options["groups"]
    differences = [*_differences(old.config, new.config, "policy.")]
    differences += _differences(options, new.options)
    if groups:
        differences += _differences({"log_contexts": old.contexts}, {"log_contexts": new.contexts})
    if differences:
        raise FairbanditError(
            f"{name} is not the log that this agent wrote: {'; '.join(differences)}. To go on "
            "with other settings, begin a new log; Agent.from_log(policy, read_log(OLD)) learns "
            "from the old one"
        )


def after_lines(
    policy: Policy, state: State, path: Path, stop: float = float("inf")
) -> tuple[State, str | None]:
    """Returns a state after the lines of its worker's log that it lacks, before line `stop`.

    Also returns the hash of the last saved agent that the worker took up in these lines.
    """
    at, last = state.own.log, None
    if at is not None and not holds(path, at):
        raise FairbanditError(f"{path} {_OTHER}")
    lines = own_lines(path, at=at)
    at = at or next(lines).at
    with torch.inference_mode():
        for line in lines:
            if line.at.line >= stop:
                break
            if isinstance(line.event, Refreshed):
                last = line.event.agent
            else:
                with of_line(line.where):
                    state = fold.applied(policy, state, line.event, line.where)
            at = line.at
    return state.with_own(log=at), last


def merged(policy: Policy, state: State, logs: Sequence[Path], header: Header) -> State:
    """Returns a state after the lines of several workers' logs that it lacks, in order of time.

    The order of each log is kept.
    """
    rows, first = dict[int, Iterator[tuple[int, LoggedLine]]](), state.worker
    for path in logs:
        head = next(own_lines(path))
        assert isinstance(head.event, Header)
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
    with torch.inference_mode():
        for worker, line in heapq.merge(
            *rows.values(), key=lambda r: (r[1].event.time or "", r[0])
        ):
            state = state.of_worker(worker)
            with of_line(line.where):
                if len(rows) > 1 and isinstance(line.event, Opened | Offered | Closed):
                    raise FairbanditError("an opening cannot be merged with other logs")
                if not isinstance(line.event, Refreshed):
                    state = fold.applied(policy, state, line.event, line.where)
            state = state.with_own(log=line.at)
    if state.early:
        remark(f"{len(state.early):,} decisions whose rewards are known are in none of the logs")
    return state.of_worker(first)


def _name(column: Mapping[str, Any]) -> str:
    return str(column.get("name", (column.get("one"), column.get("other"))))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names each entry in which nested settings differ, with the value in the log and now."""
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key, _MISSING), new.get(key, _MISSING)
        name = f"{prefix}{key}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{name}.")
        elif before != after:
            if key == "columns" and isinstance(before, list) and isinstance(after, list):
                logged, present = ({_name(c): c for c in columns} for columns in (before, after))
                names = [c for c in {**logged, **present} if logged.get(c) != present.get(c)]
                yield f"the encoder was made from another table: {', '.join(names)}"
                continue
            values = ("missing" if value is _MISSING else shown(value) for value in (before, after))
            yield f"{name} is {next(values)} in the log and {next(values)} now"
