"""The file of a saved agent: its state, with the name and the version of the format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from fairbandit.agent.calls import Now
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown
from fairbandit.files import state
from fairbandit.files.files import of_file, open_regular
from fairbandit.files.formats import Count, Natural, Plain, Sha256, mapping
from fairbandit.logs.own import label
from fairbandit.logs.records import Options
from fairbandit.policy.policy import Policy
from fairbandit.tables.labels import UNSAID, spellings

FORMAT = "fairbandit.Agent"
"""The name of the format, the first entry of every file."""

VERSION = 11
"""The version of the format; files of other versions are refused."""

_SAVED = mapping(
    config=Plain,
    options=Options,
    log=tuple[Natural, Sha256, Natural] | None,
    openings=list[mapping(ticket=Count)],  # type: ignore[misc]
)


def plain(
    policy: Policy, now: Now, patience: int | None, features: Any, reward: str | None
) -> dict[str, Any]:
    """Returns the options and the state of an agent as plain data."""
    problem = now.history.problem
    options = {
        "features": features.state() if isinstance(features, Encoder) else features,
        "seed": problem.streams.seed,
        "exploration": problem.exploration,
        "patience": patience,
        "groups": spellings(now.groups),
    }
    if reward is not None:
        options["reward"] = reward
    if words := sorted(now.groups.words - UNSAID):
        options["unknown"] = words
    return {
        "options": options,
        "known": now.history.saved(),
        "waiting": now.tickets.state(problem.features),
        "openings": [{"ticket": t, **o.state()} for t, o in now.openings.items()],
        "learned": now.learned.state(),
        "log": None if now.log is None else list(now.log),
    }


def options(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of an `Agent` from the options of `plain` or of a log's header."""
    arguments = {**plain, "groups": list(map(label, plain["groups"]))}
    if isinstance(encoder := plain.get("features"), Mapping):
        arguments["features"] = Encoder(**encoder)
    return arguments


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
