"""An agent's file: its state with a name and a version, and one clear error for any other file."""

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
"""The name of the format, which every file begins with."""

VERSION = 5
"""The version of the format; files of other versions are refused."""


def packed(saved: Mapping[str, Any]) -> bytes:
    """An agent's state as it goes into a file.

    Raises:
        FairbanditError: a label that no file can hold.
    """
    options = saved["options"]
    labels = [groups.written(label) for label in options["groups"]]
    whole = {**saved, "options": {**options, "groups": labels}}
    return state.packed({"format": FORMAT, "version": VERSION, **whole})


def write(path: Path, contents: bytes) -> None:
    """Writes an agent's file.

    Raises:
        FairbanditError: a file that cannot be written.
    """
    try:
        state.write(contents, path)
    except OSError as error:
        reason = error.strerror or error
        raise FairbanditError(f"cannot save the agent to {path}: {reason}") from error


@contextmanager
def reading(path: Path) -> Iterator[dict[str, Any]]:
    """The state in a file that `write` wrote; errors inside the context name the file.

    Raises:
        FairbanditError: no such file, or one that is no whole agent of this version.
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
    if not isinstance(saved, dict) or not _is(saved.get("format"), FORMAT):
        raise FairbanditError(f"{path} holds no agent; expected what Agent.save wrote")
    if not _is(saved.get("version"), VERSION):
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
    except Exception as error:  # whatever a file of a stranger's making may lead to
        raise FairbanditError(
            f"{path} holds no whole agent ({type(error).__name__}: {error}); expected what "
            "Agent.save wrote"
        ) from error


def _is(given: Any, expected: str | int) -> bool:
    """Whether something that may be of any type, a tensor too, is a value."""
    return type(given) is type(expected) and bool(given == expected)
