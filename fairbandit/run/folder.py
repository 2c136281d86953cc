"""The folder of a run: claimed by one run at a time, and never written over once finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from fairbandit.errors import FairbanditError

SUMMARY = "summary.json"
"""Written last: a folder that holds it holds a finished run."""

EVENTS = "events.out.tfevents.*.fairbandit"
"""The TensorBoard event files that a run writes."""

ROUNDS = "rounds"
"""The subfolder of the Parquet files."""

_UNFINISHED = ".tmp"


def refuse_finished(folder: Path) -> None:
    """Protects a finished run.

    Raises:
        FairbanditError: the folder holds one.
    """
    if (folder / SUMMARY).exists():
        raise FairbanditError(
            f"{folder} already holds a finished run ({SUMMARY}); "
            "choose another output folder, or remove this one first"
        )


@contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Makes the folder, holds it against other runs, and clears what a broken run left there.

    Args:
        folder: where the run writes.

    Raises:
        FairbanditError: the folder cannot be written to, is held by another run, or holds a
            finished one.
    """
    refuse_finished(folder)
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise FairbanditError(f"another run is writing to {folder}") from None
    except OSError as error:
        raise FairbanditError(f"cannot write to the output folder {folder}: {error}") from error
    try:
        refuse_finished(folder)
        for pattern in (f"{ROUNDS}/part-*", EVENTS, f"{SUMMARY}{_UNFINISHED}"):
            for left in folder.glob(pattern):
                left.unlink()
        yield
    finally:
        (folder / ".lock").unlink(missing_ok=True)
        lock.release()


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when complete, and leaves nothing on an error.

    Args:
        path: the file to write.

    Yields:
        A binary file to write to.
    """
    aside = path.with_name(path.name + _UNFINISHED)
    try:
        with aside.open("wb") as file:
            yield file
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
