"""The files of an agent: saved agents, and the states that follow from the lines of logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired

import msgspec
import numpy as np
import torch

from fairbandit.agent.inputs import Reader
from fairbandit.agent.offers import Offers
from fairbandit.agent.state import Remembered, State, Told, Waiting, Worker
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown
from fairbandit.files import state as containers
from fairbandit.files.files import of_file, open_regular
from fairbandit.files.formats import Count, Natural, Plain, Sha256, fitted, mapping
from fairbandit.logs import events as logged
from fairbandit.logs import own_lines
from fairbandit.logs.chain import LogFile, Position, chained, holds, now
from fairbandit.tables.labels import UNSAID

FORMAT = "fairbandit.Agent"
"""The name of the format, the first entry of every file."""

VERSION = 13
"""The version of the format; files of other versions are refused."""

_PLACES = tuple[Natural, ...]
_WAITING = tuple[logged.Ticket, Count, Natural, _PLACES, _PLACES, _PLACES, Count]
_HEAD = mapping(config=Plain, options=logged.Options, agent=NotRequired[Sha256 | None])
_STATE = mapping(
    worker=Natural,
    workers=list[tuple[Natural, Natural, Natural, Position | None]],
    waiting=mapping(rows=list[_WAITING]),
    openings=list[mapping(ticket=logged.Ticket)],  # type: ignore[misc]
    early=list[Told],
    learned=Natural,
)

_MISSING = object()
NOT_ITS_LOG = (  # the end of a message that begins with the name of the log
    "is not the log that this agent wrote, or the agent has decided or learned without it since; "
    "to continue a log, load its agent by Agent.load(FILE, log=...), or create an agent with the "
    "same settings"
)


def options(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of an `Agent` from `plain` or a log's header."""
    arguments = {**plain, "groups": list(map(logged.label, plain["groups"]))}
    if isinstance(encoder := plain.get("features"), Mapping):
        arguments["features"] = Encoder(**encoder)
    return arguments


def plain_options(now: State, reader: Reader) -> dict[str, Any]:
    """Returns the options of an agent as plain data."""
    problem = now.history.problem
    options: dict[str, Any] = {
        "features": reader.encoder.state() if reader.encoder else reader.names or reader.features,
        "seed": problem.streams.seed,
        "exploration": problem.exploration,
        "patience": now.patience,
        "groups": now.groups.spellings,
    }
    if reader.reward is not None:
        options["reward"] = reader.reward
    if words := sorted(now.groups.words - UNSAID):
        options["unknown"] = words
    if now.shadow:
        options["shadow"] = True
    return options


def plain(now: State, reader: Reader) -> dict[str, Any]:
    """Returns the options and the state of an agent as plain data."""
    d, waiting = reader.features, now.waiting.items()
    contexts = np.concatenate([np.zeros((0, d)), *(w.contexts for _, w in waiting)])
    codes = np.concatenate([np.zeros(0, np.int64), *(w.codes for _, w in waiting)])
    return {
        "options": plain_options(now, reader),
        "known": now.history.saved(),
        "worker": now.worker,
        "workers": [[number, *worker] for number, worker in now.workers.items()],
        "waiting": {
            "rows": [
                [ticket, w.round, w.turn, w.places, w.open, w.recommended, len(w.codes)]
                for ticket, w in waiting
            ],
            "groups": torch.from_numpy(codes),
            "contexts": torch.from_numpy(contexts),
        },
        "openings": [{"ticket": t, **offers.state()} for t, offers in now.openings.items()],
        "early": [msgspec.to_builtins(event, str_keys=True) for event in now.early],
        "learned": now.learned,
        "remembered": now.remembered.state(),
    }


def restored(saved: Mapping[str, Any], now: State) -> State:
    """Returns the state that `plain` gave, from the first state of the same agent."""
    worker, read = now.of_worker(saved["worker"]), msgspec.convert(saved, _STATE, str_keys=True)
    history = worker.history.restored(saved["known"])
    problem, pools = history.problem, saved["waiting"]
    empty = {"contexts": problem.zeros(0, problem.features), "groups": torch.zeros(0).long()}
    contexts, codes = (part.numpy() for part in fitted(pools, empty).values())
    waiting, low = dict[int, Waiting](), 0
    for ticket, number, turn, *places, k in read["waiting"]["rows"]:
        pool = contexts[low : low + k].copy(), codes[low : low + k].copy()
        waiting[ticket], low = Waiting(number, turn, *pool, *places), low + k
    now = worker._replace(
        history=history,
        workers={number: Worker(*worker) for number, *worker in read["workers"]},
        settled=waiting,
        openings={o["ticket"]: Offers.restored(o, problem) for o in saved["openings"]},
        early=tuple(read["early"]),
        learned=saved["learned"],
        remembered=Remembered.restored(saved["remembered"]),
    )
    return now._replace(settled=now.waiting)  # or raises for an unknown worker


def write(path: Path, saved: Mapping[str, Any]) -> None:
    """Writes an agent's file."""
    contents = containers.packed({"format": FORMAT, "version": VERSION, **saved})
    with of_file(path, "cannot save the agent to"):
        containers.write(contents, path)


@contextmanager
def reading(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the content of a file that `write` wrote, for a block that restores the agent."""
    with open_regular(path, "cannot load an agent from") as file:
        contents = file.read()
    try:
        saved = containers.unpacked(contents)
        header = saved["format"], saved["version"]
        if header != (FORMAT, VERSION):
            raise ValueError(f"its format is {shown(header)}, not {(FORMAT, VERSION)}")
        msgspec.convert(saved, _HEAD)
        yield {**saved, "digest": hashlib.sha256(contents).hexdigest()}
    except FairbanditError as error:
        raise FairbanditError(
            f"cannot restore the agent of {path}: {error}. Plugins must be loaded first"
        ) from error
    except Exception as error:  # a file from an untrusted source may cause any error
        raise FairbanditError(
            f"{path} is not a complete agent file of this version of fairbandit "
            f"({type(error).__name__}: {error}); expected a file that Agent.save wrote"
        ) from error


def resume(file: LogFile, header: logged.Header, saved: Position | None) -> Position:
    """Finds the position after which an agent goes on in a log; begins an empty log."""
    first = next(own_lines(file.path, new=True), None)
    if first is None:  # a new file, or its header was cut off
        data, at = chained(logged.body_of(header), Position(), now())
        file.begin(0)
        file.append(data, 0)
        return at
    assert isinstance(first.event, logged.Header)
    same = first.event.agent == header.agent if saved is None else holds(file.path, saved)
    if saved is None or not same:
        check_settings(first.event, header, str(file.path), groups=saved is None and same)
    if first.event.worker != header.worker:
        raise FairbanditError(
            f"{file.path} is a log of worker={first.event.worker}, and the agent has "
            f"worker={header.worker}; each worker begins a log of its own (docs/workers.md)"
        )
    if not same:
        raise FairbanditError(f"{file.path} {NOT_ITS_LOG}")
    return saved or first.at


def check_settings(
    old: logged.Header, header: logged.Header, name: str, groups: bool = False
) -> None:
    """Raises an error that names each setting of a log that an agent does not have.

    With `groups`, both begin with the same groups, and log the same values.
    """
    new = logged.event_of(logged.body_of(header))  # with lists for tuples
    assert isinstance(new, logged.Header)
    before, now = (
        {"policy": h.config, **h.options, "log_contexts": h.contexts} for h in (old, new)
    )
    if isinstance(encoder := before["features"], Mapping):  # in the form of this version
        before["features"] = Encoder(**encoder).state()
    if not groups:
        before |= {"groups": now["groups"], "log_contexts": now["log_contexts"]}
    if differences := [*_differences(before, now)]:
        raise FairbanditError(
            f"{name} is not the log that this agent wrote: {'; '.join(differences)}. To go on "
            "with other settings, begin a new log; Agent.from_log(policy, read_log(OLD)) learns "
            "from the old one"
        )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names each entry in which nested settings differ, with the value in the log and now."""
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key, _MISSING), new.get(key, _MISSING)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{prefix}{key}.")
        elif key == "columns" and before != after and _MISSING not in (before, after):
            columns = dict[str, list[Any]]()
            for column in (*before, *after):
                name = column.get("name", (column.get("one"), column.get("other")))
                columns.setdefault(str(name), []).append(column)
            names = [name for name, both in columns.items() if len(both) < 2 or both[0] != both[1]]
            yield f"the encoder was made from another table: {', '.join(names)}"
        elif before != after:
            values = ("missing" if value is _MISSING else shown(value) for value in (before, after))
            yield f"{prefix}{key} is {next(values)} in the log and {next(values)} now"
