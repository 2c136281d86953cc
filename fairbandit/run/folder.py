"""The folder of a run, which one process at a time may write to."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from fairbandit.errors import FairbanditError

SUMMARY = "summary.json"
"""The summary. It is written last, so that a folder with this file holds a finished run."""

EVENTS = "events.out.tfevents.*.fairbandit"
"""The TensorBoard event files that a run writes."""

ROUNDS = "rounds"
"""The subfolder of the Parquet files."""

REWARDS = "rewards.parquet"
"""The true reward distributions of the groups."""

CHECKPOINT = "checkpoint.safetensors"
"""The checkpoint of an unfinished run; it is removed when the run is finished."""

LOCK = ".lock"
"""The file that a process locks with `flock` while it writes to the folder, and then removes."""

ERROR = "error.txt"
"""Why a job of a sweep failed, in the folder of the job; the last line is the error in short."""

_REPLACED = re.compile(r"\.old-[0-9a-f]{12}(-\d+)?\Z")  # how the name of a folder set aside ends
_UNFINISHED = ".tmp"
_WRITTEN = "unfinished"  # in a folder NAME.tmp; not NAME, which would look like a finished file
_LIBRARYS = ".tmp"  # how safetensors names its own unfinished files
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_FORBIDDEN = {errno.EACCES, errno.EPERM}


class StorageError(FairbanditError):
    """The disk is full, or can no longer be written to."""


@dataclass
class Held:
    """A folder that this process has locked.

    Attributes:
        folder: where it is now.
    """

    folder: Path

    def set_aside(self) -> Path:
        """Moves the whole folder to the sibling `NAME.old-HASH`, which every reader ignores.

        The lock file moves with the folder, so that its name is free at once; a process that
        wants to write to a folder of this name must claim it again.

        Returns:
            The sibling. HASH is of the summary.

        Raises:
            OSError: the folder cannot be moved.
        """
        here = self.folder.absolute()
        digest = hashlib.sha256((here / SUMMARY).read_bytes()).hexdigest()[:12]
        aside = fresh(here.with_name(f"{here.name}.old-{digest}"))
        here.rename(aside)
        self.folder = aside
        return aside


@contextmanager
def claim(folder: Path, taken: str = "", *, wait: bool = False) -> Iterator[Held]:
    """Makes a folder and locks it; the lock of a killed process is free.

    Args:
        folder: where a run or a sweep writes.
        taken: what to say if another process holds it; by default, that a run is writing to it.
        wait: waits until the folder is free, which otherwise is an error.

    Yields:
        The folder, held.

    Raises:
        FairbanditError: the folder cannot be written to, or another process holds it.
    """
    lock = FileLock(folder / LOCK)
    try:
        while not lock.is_locked:
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # another process has just set the folder aside
                lock.acquire(timeout=-1 if wait else 0, poll_interval=0.1)
    except Timeout:
        raise FairbanditError(taken or f"another run is writing to {folder}") from None
    except OSError as error:
        kind = StorageError if error.errno in _FULL else FairbanditError
        raise kind(f"cannot write to the output folder {folder}: {error.strerror}") from error
    held = Held(folder)
    try:
        yield held
    finally:
        with suppress(OSError):  # as when the folder has become read-only
            (held.folder / LOCK).unlink(missing_ok=True)
        lock.release()


def clear(folder: Path, keep: Collection[str] = ()) -> None:
    """Removes what an interrupted run left in a folder, except for Parquet files to keep."""
    for left in folder.glob(f"{ROUNDS}/part-*"):
        if left.name not in keep:
            _remove(left)
    for pattern in (EVENTS, *(f"{name}{_UNFINISHED}" for name in (SUMMARY, REWARDS, CHECKPOINT))):
        for left in folder.glob(pattern):
            _remove(left)


def _remove(left: Path) -> None:
    """Removes a file, or the folder of `aside` with the files that `aside` or a library wrote."""
    if not left.is_dir() or left.is_symlink():
        left.unlink(missing_ok=True)
        return
    for file in left.iterdir():
        if file.name == _WRITTEN or file.name.startswith(_LIBRARYS):
            file.unlink()
    left.rmdir()


def walk(
    folder: Path, onerror: Callable[[OSError], None] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walks through a folder and all folders below it, as `os.walk`, except for replaced results.

    Yields:
        A folder, and the names of the folders and of the files in it.
    """
    for place, folders, files in os.walk(folder, onerror=onerror):
        folders[:] = [name for name in folders if not _REPLACED.search(name)]
        yield place, folders, files


def finished_below(folder: Path, onerror: Callable[[OSError], None] | None = None) -> Iterator[str]:
    """Yields the folders of the finished runs below a folder.

    A job whose last attempt failed does not count as finished, whatever an earlier attempt left
    in its folder. Replaced results do not count either. Errors of reading go to `onerror`.
    """
    for place, _, files in walk(folder, onerror):
        if SUMMARY in files and ERROR not in files:
            yield place


def fresh(folder: Path) -> Path:
    """Returns a path at which no results lie: the folder itself, or folder-2, folder-3, …

    It is the first of these that is missing or empty. Nothing is created.
    """
    if _free(folder):
        return folder
    others = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(other for other in others if _free(other))


def _free(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns a full disk, or a folder that has become read-only, into one message.

    Raises:
        StorageError: the disk is full or read-only.
        FairbanditError: the folder may not be written to.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL | _FORBIDDEN:
            raise
        kind = StorageError if error.errno in _FULL else FairbanditError
        raise kind(
            f"cannot write to {folder}: {os.strerror(error.errno or 0)}. What is finished is "
            "kept; once the folder can be written to again, the same command goes on from there"
        ) from error


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Gives a path to write a file to, which is renamed when complete, and removed on an error.

    The file is written in a folder of its own, `NAME.tmp` beside its place. Whatever a library
    leaves there when the process is killed is removed when the file is next written.
    """
    folder = path.with_name(path.name + _UNFINISHED)
    _remove(folder)
    folder.mkdir()
    unfinished = folder / _WRITTEN
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        with suppress(OSError):
            _remove(folder)


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that appears under its name only when complete, and is removed on an error."""
    with aside(path) as unfinished, unfinished.open("wb") as file:
        yield file
