"""The file to which an agent appends its decisions and rewards."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from itertools import count
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from fairbandit.errors import FairbanditError
from fairbandit.logs.chain import START

ENDING = ".jsonl"
"""How the files of decision logs are called."""


class Position(NamedTuple):
    """How far a log goes: the number and the hash of its last line, and its length in bytes."""

    line: int = 0
    sha256: str = START
    end: int = 0


class LogFile:
    """A log that this process alone appends to.

    It holds no position: the caller says where the log ends, so that what a failed or interrupted
    call wrote is cut off by the next one.

    Args:
        path: the file, made if there is none; or a folder, in which a new file is made.
        fsync: wait for the disk at each append.

    Raises:
        FairbanditError: the file cannot be opened, or another agent appends to it.
    """

    def __init__(self, path: str | PathLike[str], fsync: bool = False) -> None:
        given, folder = Path(path), str(path).endswith(("/", os.sep))
        self.fsync = fsync
        try:
            self.path = _new_file(given) if folder or given.is_dir() else given
            self._lock = FileLock(f"{self.path}.lock")
            self._lock.acquire(timeout=0)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except Timeout:
            raise FairbanditError(f"another agent appends to {path}; give each a log") from None
        except OSError as error:
            raise FairbanditError(
                f"cannot open the log {path}: {error.strerror or error}"
            ) from error
        self._process = os.getpid()

    @property
    def size(self) -> int:
        """The length of the file, in bytes."""
        return os.fstat(self._file).st_size

    def append(self, data: bytes, end: int) -> None:
        """Hands whole lines to the operating system, as the bytes from a position on.

        Raises:
            FairbanditError: they cannot be written; the log is as it was.
        """
        if self._process != os.getpid():
            raise FairbanditError(
                f"{self.path} belongs to the process that opened it; this process is a fork of it, "
                "and its agent needs a log of its own: load a saved agent with log=..."
            )
        try:
            if self.size != end:
                os.ftruncate(self._file, end)
            if os.write(self._file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self.fsync:
                os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, end)
            raise FairbanditError(
                f"cannot append to {self.path}: {error.strerror or error}; nothing was decided"
            ) from error

    def __del__(self) -> None:
        """Lets others append to the file."""
        if hasattr(self, "_file"):
            os.close(self._file)
            self._lock.release()


def now() -> str:
    """The UTC time in ISO 8601, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _new_file(folder: Path) -> Path:
    """A file in a folder that nobody else has made: the time, and a number."""
    folder.mkdir(parents=True, exist_ok=True)
    began = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for number in count(1):
        path = folder / f"{began}-{number}{ENDING}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            continue
        return path
    raise AssertionError
