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
from fairbandit.errors import FairbanditError
from fairbandit.files import of_file, open_regular
from fairbandit.formats import Natural, Plain, Sha256, mapping
from fairbandit.labels import spellings
from fairbandit.logs.own import label
from fairbandit.logs.records import Options
from fairbandit.maths.checks import shown
from fairbandit.policy import Policy
from fairbandit.run import state

FORMAT = "fairbandit.Agent"
"""The name of the format, the first entry of every file."""

VERSION = 9
"""The version of the format; files of other versions are refused."""

_SAVED = mapping(config=Plain, options=Options, log=tuple[Natural, Sha256, Natural] | None)


def plain(
    policy: Policy, now: Now, patience: int | None, features: Any, reward: str | None
) -> dict[str, Any]:
    """All that an agent is, as plain data."""
    problem = now.known.problem
    options = {
        "features": features.state() if isinstance(features, Encoder) else features,
        "seed": problem.streams.seed,
        "exploration": problem.exploration,
        "patience": patience,
        "groups": spellings(now.groups),
    }
    if reward is not None:
        options["reward"] = reward
    return {
        "options": options,
        "known": policy.state(now.known),
        "waiting": now.tickets.state(problem.features),
        "learned": now.learned.state(),
        "log": None if now.log is None else list(now.log),
    }


def options(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an `Agent` that `plain` gave, which JSON may have held since."""
    found = {**plain, "groups": list(map(label, plain["groups"]))}
    if isinstance(encoder := plain.get("features"), Mapping):
        found["features"] = Encoder(**encoder)
    return found


def write(path: Path, saved: Mapping[str, Any]) -> None:
    """Writes an agent's file.

    Raises:
        FairbanditError: a group label of a type that files do not hold, or a file that cannot be
            written.
    """
    contents = state.packed({"format": FORMAT, "version": VERSION, **saved})
    with of_file(path, "cannot save the agent to"):
        state.write(contents, path)


@contextmanager
def reading(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the state in a file that `write` wrote, for a block that restores the agent from it.

    Raises:
        FairbanditError: the file is missing, damaged, not an agent's or of another version, or the
            block raises an error; the message names the file.
    """
    with open_regular(path, "cannot load an agent from") as file:
        whole = file.read()
    try:
        saved = state.unpacked(whole)
        found = saved["format"], saved["version"]
        if found != (FORMAT, VERSION):
            raise ValueError(f"it is {shown(found)}, and not {(FORMAT, VERSION)}")
        msgspec.convert(saved, _SAVED)
        yield {**saved, "digest": hashlib.sha256(whole).hexdigest()}
    except FairbanditError as error:
        raise FairbanditError(
            f"cannot go on with the agent of {path}: {error}. Plugins must be loaded first, and a "
            "truth given again"
        ) from error
    except Exception as error:  # a file from an untrusted source may cause any
        raise FairbanditError(
            f"{path} is no whole file of a saved agent of this version of fairbandit "
            f"({type(error).__name__}: {error}); expected what Agent.save wrote"
        ) from error
