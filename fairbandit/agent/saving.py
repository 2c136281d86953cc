"""The file of a saved agent: its state, with the name and the version of the format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairbandit.agent import groups
from fairbandit.errors import FairbanditError
from fairbandit.maths import checks
from fairbandit.run import state

FORMAT = "fairbandit.Agent"
"""The name of the format, the first entry of every file."""

VERSION = 6
"""The version of the format; files of other versions are refused."""


def packed(saved: Mapping[str, Any]) -> bytes:
    """The bytes of an agent's file, from its state.

    Raises:
        FairbanditError: a group label is of a type that cannot be saved.
    """
    options = saved["options"]
    labels = [groups.written(label) for label in options["groups"]]
    whole = {**saved, "options": {**options, "groups": labels}}
    return state.packed({"format": FORMAT, "version": VERSION, **whole})


def write(path: Path, contents: bytes) -> None:
    """Writes an agent's file.

    Raises:
        FairbanditError: the file cannot be written.
    """
    try:
        state.write(contents, path)
    except OSError as error:
        reason = error.strerror or error
        raise FairbanditError(f"cannot save the agent to {path}: {reason}") from error


@contextmanager
def reading(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the state in a file that `write` wrote, for a block that restores the agent from it.

    Raises:
        FairbanditError: the file is missing, damaged, not an agent's or of another version, or the
            block raises an error; the message names the file.
    """
    try:
        saved = state.read(path)
    except OSError as error:
        reason = error.strerror or error
        raise FairbanditError(f"cannot load an agent from {path}: {reason}") from error
    except ValueError as error:
        raise FairbanditError(
            f"{path} is no whole file of a saved agent: it is cut short, damaged or something else "
            f"({error}); expected what Agent.save wrote"
        ) from error
    if not isinstance(saved, dict) or not _equal(saved.get("format"), FORMAT):
        raise FairbanditError(f"{path} holds no agent; expected what Agent.save wrote")
    if not _equal(saved.get("version"), VERSION):
        raise FairbanditError(
            f"{path} is of version {checks.shown(saved.get('version'))} of the agents' files; "
            f"expected version {VERSION}, that of the fairbandit installed"
        )
    try:
        options = saved["options"]
        labels = [groups.read(label) for label in options["groups"]]
        yield {**saved, "options": {**options, "groups": labels}}
    except FairbanditError as error:
        raise FairbanditError(
            f"cannot go on with the agent of {path}: {error}. Plugins must be loaded first, and a "
            "truth given again"
        ) from error
    except Exception as error:  # a file from an untrusted source may cause any
        raise FairbanditError(
            f"{path} holds no whole agent ({type(error).__name__}: {error}); expected what "
            "Agent.save wrote"
        ) from error


def _equal(given: Any, expected: str | int) -> bool:
    """Whether two values are equal and of one type; the given one may be a tensor, for example."""
    return type(given) is type(expected) and bool(given == expected)
