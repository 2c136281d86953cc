"""The file of a saved agent: its state, with the name and the version of the format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from fairbandit.agent.offers import Offers
from fairbandit.agent.remembered import Remembered
from fairbandit.agent.state import State, Waiting
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown
from fairbandit.files import state
from fairbandit.files.files import of_file, open_regular
from fairbandit.files.formats import Count, Natural, Plain, Sha256, fitted, mapping, within
from fairbandit.logs import Position
from fairbandit.logs.events import Options, label
from fairbandit.tables.labels import UNSAID, spellings

FORMAT = "fairbandit.Agent"
"""The name of the format, the first entry of every file."""

VERSION = 13
"""The version of the format; files of other versions are refused."""

_PLACES = list[tuple[Natural, ...]]
_SAVED = mapping(
    config=Plain,
    options=Options,
    log=tuple[Natural, Sha256, Natural] | None,
    learned=Natural,
    openings=list[mapping(ticket=Count)],  # type: ignore[misc]
)
_WAITING = mapping(
    latest=Natural,
    tickets=list[Count],
    rounds=list[Count],
    places=_PLACES,
    open=_PLACES,
    sizes=list[Count],
)


def options(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of an `Agent` from `plain` or a log's header."""
    arguments = {**plain, "groups": list(map(label, plain["groups"]))}
    if isinstance(encoder := plain.get("features"), Mapping):
        arguments["features"] = Encoder(**encoder)
    return arguments


def plain(now: State, features: Any, reward: str | None) -> dict[str, Any]:
    """Returns the options and the state of an agent as plain data."""
    problem, decisions = now.history.problem, now.waiting.values()
    options = {
        "features": features.state() if isinstance(features, Encoder) else features,
        "seed": problem.streams.seed,
        "exploration": problem.exploration,
        "patience": now.patience,
        "groups": spellings(now.groups),
    }
    if reward is not None:
        options["reward"] = reward
    if words := sorted(now.groups.words - UNSAID):
        options["unknown"] = words
    d = problem.features
    contexts = np.concatenate([np.zeros((0, d)), *(one.contexts for one in decisions)])
    codes = np.concatenate([np.zeros(0, np.int64), *(one.codes for one in decisions)])
    return {
        "options": options,
        "known": now.history.saved(),
        "waiting": {
            "latest": now.latest,
            "tickets": list(now.waiting),
            "rounds": [decision.round for decision in decisions],
            "places": [list(decision.places) for decision in decisions],
            "open": [list(decision.open) for decision in decisions],
            "sizes": [len(decision.codes) for decision in decisions],
            "groups": torch.from_numpy(codes),
            "contexts": torch.from_numpy(contexts),
        },
        "openings": [{"ticket": t, **offers.state()} for t, offers in now.openings.items()],
        "learned": now.learned,
        "remembered": now.remembered.state(),
        "log": None if now.log is None else list(now.log),
    }


def restored(saved: Mapping[str, Any], now: State) -> State:
    """Returns the state that `plain` gave, from the first state of the same agent.

    Raises:
        ValueError: the data does not fit the agent, or its parts do not fit each other.
    """
    history, read = now.history.restored(saved["known"]), saved["waiting"]
    problem, part = history.problem, msgspec.convert(read, _WAITING)
    empty = torch.zeros(0, problem.features, dtype=torch.float64)
    contexts = fitted(read["contexts"], empty).numpy()
    groups = fitted(read["groups"], torch.zeros(0, dtype=torch.int64))
    tickets, latest, ends = part["tickets"], part["latest"], np.cumsum([0, *part["sizes"]])
    waiting, rows = dict[int, Waiting](), zip(tickets, part["rounds"], strict=True)
    picks = zip(part["places"], part["open"], ends[:-1], ends[1:], strict=True)
    for (ticket, number), (places, left, low, high) in zip(rows, picks, strict=True):
        pool = contexts[low:high].copy(), groups.numpy()[low:high].copy()
        waiting[ticket] = Waiting(number, *pool, places, left)
        if not {*left} <= {*places} <= {*range(high - low)} or not left:
            raise ValueError("the picks of a decision that waits do not fit its pool")
    openings = {o["ticket"]: Offers.restored(o, problem) for o in saved["openings"]}
    names = {offers.name for offers in openings.values()}
    fits = len(names) == len(saved["openings"]) and len(waiting) == len(tickets)
    fits = fits and len(groups) == len(contexts) == ends[-1]
    fits = fits and max([0, *tickets, *openings]) <= latest
    if not fits or waiting.keys() & openings.keys() or not within(groups, 0, problem.groups - 1):
        raise ValueError("its waiting decisions and openings do not fit each other")
    return now._replace(
        history=history,
        latest=latest,
        waiting=waiting,
        openings=openings,
        learned=saved["learned"],
        remembered=Remembered.restored(saved["remembered"]),
        log=saved["log"] and Position(*saved["log"]),
    )


def write(path: Path, saved: Mapping[str, Any]) -> None:
    """Writes an agent's file.

    Raises:
        FairbanditError: a group label of a type that cannot be saved, or a file that cannot be
            written.
    """
    contents = state.packed({"format": FORMAT, "version": VERSION, **saved})
    with of_file(path, "cannot save the agent to"):
        state.write(contents, path)


@contextmanager
def reading(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the content of a file that `write` wrote, for a block that restores the agent.

    Raises:
        FairbanditError: a file that is missing, damaged, of another kind or of another version, or
            an error in the block; the message names the file.
    """
    with open_regular(path, "cannot load an agent from") as file:
        contents = file.read()
    try:
        saved = state.unpacked(contents)
        header = saved["format"], saved["version"]
        if header != (FORMAT, VERSION):
            raise ValueError(f"its format is {shown(header)}, not {(FORMAT, VERSION)}")
        msgspec.convert(saved, _SAVED)
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
