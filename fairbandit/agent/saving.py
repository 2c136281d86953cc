"""The file of a saved agent: its state, with the name and the version of the format."""

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
from fairbandit.files import state
from fairbandit.files.files import of_file, open_regular
from fairbandit.files.formats import Count, Natural, Plain, Sha256, fitted, mapping
from fairbandit.logs.chain import Position
from fairbandit.logs.events import Options, Ticket, label
from fairbandit.tables.labels import UNSAID, spellings

FORMAT = "fairbandit.Agent"
"""The name of the format, the first entry of every file."""

VERSION = 13
"""The version of the format; files of other versions are refused."""

_PLACES = tuple[Natural, ...]
_HEAD = mapping(config=Plain, options=Options, agent=NotRequired[Sha256 | None])
_STATE = mapping(
    worker=Natural,
    workers=list[tuple[Natural, Natural, Natural, tuple[Natural, Sha256, Natural] | None]],
    waiting=mapping(rows=list[tuple[Ticket, Count, Natural, _PLACES, _PLACES, _PLACES, Count]]),
    openings=list[mapping(ticket=Ticket)],  # type: ignore[misc]
    early=list[Told],
    learned=Natural,
)


def options(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of an `Agent` from `plain` or a log's header."""
    arguments = {**plain, "groups": list(map(label, plain["groups"]))}
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
        "groups": spellings(now.groups),
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
    d, waiting = reader.features, now.waiting
    contexts = np.concatenate([np.zeros((0, d)), *(one.contexts for one in waiting.values())])
    codes = np.concatenate([np.zeros(0, np.int64), *(one.codes for one in waiting.values())])
    return {
        "options": plain_options(now, reader),
        "known": now.history.saved(),
        "worker": now.worker,
        "workers": [[number, *worker] for number, worker in now.workers.items()],
        "waiting": {
            "rows": [
                [ticket, one.round, one.turn, one.places, one.open, one.recommended, len(one.codes)]
                for ticket, one in waiting.items()
            ],
            "groups": torch.from_numpy(codes),
            "contexts": torch.from_numpy(contexts),
        },
        "openings": [{"ticket": t, **offers.state()} for t, offers in now.openings.items()],
        "early": [msgspec.to_builtins(e, str_keys=True) for t in now.early.values() for e in t],
        "learned": now.learned,
        "remembered": now.remembered.state(),
    }


def restored(saved: Mapping[str, Any], now: State) -> State:
    """Returns the state that `plain` gave, from the first state of the same agent."""
    worker, read = now.of_worker(saved["worker"]), msgspec.convert(saved, _STATE, str_keys=True)
    history = worker.history.restored(saved["known"])
    problem, pools = history.problem, saved["waiting"]
    empty = torch.zeros(0, problem.features, dtype=torch.float64)
    contexts = fitted(pools["contexts"], empty).numpy()
    codes = fitted(pools["groups"], torch.zeros(0, dtype=torch.int64)).numpy()
    waiting, low = dict[int, Waiting](), 0
    for ticket, number, turn, *places, k in read["waiting"]["rows"]:
        pool = contexts[low : low + k].copy(), codes[low : low + k].copy()
        waiting[ticket], low = Waiting(number, turn, *pool, *places), low + k
    early = dict[int, tuple[Told, ...]]()
    for event in read["early"]:
        early[event.ticket] = (*early.get(event.ticket, ()), event)
    now = worker._replace(
        history=history,
        workers={
            number: Worker(latest, rounds, at and Position(*at))
            for number, latest, rounds, at in read["workers"]
        },
        settled=waiting,
        openings={o["ticket"]: Offers.restored(o, problem) for o in saved["openings"]},
        early=early,
        learned=saved["learned"],
        remembered=Remembered.restored(saved["remembered"]),
    )
    return now._replace(settled=now.waiting)  # or raises for an unknown worker


def write(path: Path, saved: Mapping[str, Any]) -> None:
    """Writes an agent's file."""
    contents = state.packed({"format": FORMAT, "version": VERSION, **saved})
    with of_file(path, "cannot save the agent to"):
        state.write(contents, path)


@contextmanager
def reading(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the content of a file that `write` wrote, for a block that restores the agent."""
    with open_regular(path, "cannot load an agent from") as file:
        contents = file.read()
    try:
        saved = state.unpacked(contents)
        header = saved["format"], saved["version"]
        if header != (FORMAT, VERSION):
            raise ValueError(f"its format is {shown(header)}, not {(FORMAT, VERSION)}")
        msgspec.convert(saved, _HEAD)
        yield {**saved, "digest": hashlib.sha256(contents).hexdigest()}
    except FairbanditError as error:
        raise FairbanditError(
            f"cannot restore the agent of {path}: {error}. Plugins must be loaded first, and a "
            "truth must be given again"
        ) from error
    except Exception as error:  # a file from an untrusted source may cause any error
        raise FairbanditError(
            f"{path} is not a complete agent file of this version of fairbandit "
            f"({type(error).__name__}: {error}); expected a file that Agent.save wrote"
        ) from error
