"""The folder of a run: claimed by one run at a time, and never written over once finished."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import count
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

REWARDS = "rewards.parquet"
"""The true reward distributions of the groups."""

CHECKPOINT = "checkpoint.safetensors"
"""What an unfinished run goes on from; gone once it is finished."""

LOCK = ".lock"
"""Held, as `flock` holds it, by the process that writes to the folder, and gone afterwards."""

_UNFINISHED = ".tmp"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_FORBIDDEN = {errno.EACCES, errno.EPERM}


class StorageError(FairbanditError):
    """The disk is full, or can no longer be written to."""


@contextmanager
def claim(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Makes the folder and holds it against other runs.

    Args:
        folder: where the run writes.
        wait: until the folder is free, where it would be an error.

    Raises:
        FairbanditError: the folder cannot be written to, or is held by another run.
    """
    with hold(folder, f"another run is writing to {folder}", wait=wait):
        yield


@contextmanager
def hold(folder: Path, taken: str, *, wait: bool = False) -> Iterator[None]:
    """Makes a folder and holds its lock; the lock of a killed process is free.

    Args:
        folder: the folder.
        taken: what to say if another process holds it.
        wait: until it is free, where it would be an error.

    Raises:
        FairbanditError: the folder cannot be written to, or another process holds it.
    """
    lock = FileLock(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if wait else 0, poll_interval=0.1)
    except Timeout:
        raise FairbanditError(taken) from None
    except OSError as error:
        kind = StorageError if error.errno in _FULL else FairbanditError
        raise kind(f"cannot write to the output folder {folder}: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):  # as when the folder has become read-only
            (folder / LOCK).unlink(missing_ok=True)
        lock.release()


def clear(folder: Path, keep: Collection[str] = ()) -> None:
    """Removes what a broken run left in a folder, but for the Parquet files to keep.

    Args:
        folder: a folder that is held.
        keep: names of files in its `rounds`.
    """
    for left in folder.glob(f"{ROUNDS}/part-*"):
        if left.name not in keep:
            left.unlink()
    for pattern in (EVENTS, f"{SUMMARY}{_UNFINISHED}", f"{CHECKPOINT}{_UNFINISHED}"):
        for left in folder.glob(pattern):
            left.unlink()


def fresh(folder: Path) -> Path:
    """The folder, if nothing is in it; else the first free one of folder-2, folder-3, …"""
    if _free(folder):
        return folder
    others = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(other for other in others if _free(other))


def _free(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns a full disk, or a folder that has become read-only, into one message.

    Args:
        folder: where files are written, and nowhere else.

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
    """A path to write to; its file gets the right name when complete, and is removed on an error.

    Args:
        path: where the file shall be.

    Yields:
        Where to write it.
    """
    unfinished = path.with_name(path.name + _UNFINISHED)
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when complete, and leaves nothing on an error.

    Args:
        path: the file to write.

    Yields:
        A binary file to write to.
    """
    with aside(path) as unfinished, unfinished.open("wb") as file:
        yield file
