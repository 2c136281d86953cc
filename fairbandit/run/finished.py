"""Recognises finished runs, which are served only while nothing that decides them has changed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbandit.errors import FairbanditError
from fairbandit.run import summary as summaries
from fairbandit.run.folder import CHECKPOINT, SUMMARY, finished_below
from fairbandit.run.identity import changes, differences

_TOLD = 3  # changes that a message lists


@dataclass(frozen=True)
class Found:
    """A finished run that was found in a folder.

    Attributes:
        summary: its summary.
        changed: why its results are not those that this run would give; empty if they are.
    """

    summary: dict[str, Any]
    changed: str


def finished(folder: Path, now: Mapping[str, Any], *, resume: bool) -> Found | None:
    """Looks for a finished run in a folder.

    Args:
        folder: the folder.
        now: the identity of the run that shall have its results there.
        resume: whether a finished run may be served, or replaced.

    Raises:
        FairbanditError: the run in the folder was asked for with another config, by the same code:
            it is another run, and stays; with `resume` false, there is any run.
    """
    if not resume and any((folder / name).exists() for name in (SUMMARY, CHECKPOINT)):
        raise FairbanditError(
            f"{folder} already holds a run, and resume is false; choose another output folder"
        )
    if not (folder / SUMMARY).exists():
        return None
    summary = summaries.read(folder)
    then = summary.get("identity")
    if not isinstance(then, Mapping):
        return Found(summary, "its summary does not say what it was made from")
    if all(then.get(key) == now[key] for key in ("versions", "package", "plugins")):
        _require_same_config(folder, then, now)
    told = changes(then, now)
    if not told:
        with suppress(OSError):  # killed after its last file and before its last step
            (folder / CHECKPOINT).unlink(missing_ok=True)
    more = [f"{len(told) - _TOLD} more changes"] if len(told) > _TOLD else []
    return Found(summary, ", ".join([*told[:_TOLD], *more]))


def _require_same_config(folder: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    different = differences(then.get("config") or {}, now["config"])
    if different:
        raise FairbanditError(
            f"{folder} already holds a finished run ({SUMMARY}) that differs from this one: "
            f"{'; '.join(different)}. Choose another output folder; resume=false makes a new one"
        )


def check_movable(folder: Path, now: Mapping[str, Any]) -> None:
    """Refuses to set aside a folder that holds more than the results of one run.

    Args:
        folder: the folder, with a finished run.
        now: the identity of the run that shall have its results there.

    Raises:
        FairbanditError: the working directory, data or other runs are in the folder.
    """
    place = folder.resolve()
    inside = [path for path in (Path.cwd(), *map(Path, now["data"])) if _within(path, place)]
    others = [Path(other) for other in finished_below(folder) if Path(other) != folder]
    if inside or others:
        raise FairbanditError(
            f"the results in {folder} are to be replaced, and moved away with all that the folder "
            f"holds; but it holds {[*inside, *others][0]} too. Choose another output folder"
        )


def _within(path: Path, folder: Path) -> bool:
    return path.exists() and path.resolve().is_relative_to(folder)
