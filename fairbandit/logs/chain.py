"""The file of an agent's log: a chain of JSON lines.

A line is `{…,"previous":"H","sha256":"h"}`, where H is the hash of the line before (64 zeros for
the first line) and h is the hash of the line's own bytes up to `,"sha256"`. Changing, removing,
adding or moving a line changes the last hash. Lines of version 1 have a blank after each `:` and
`,`; they are verified by their own bytes, too.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from filelock import lock_descriptor, unlock_descriptor

from fairbandit.errors import FairbanditError
from fairbandit.files.files import of_file, open_regular
from fairbandit.files.formats import Natural, Sha256
from fairbandit.logs.events import Header, Line, event_of

_BEGIN = b'{"kind":"'
_ENDS = b',"sha256":"%b"}\n', b', "sha256": "%b"}\n'

_log = logging.getLogger("fairbandit")


class Position(NamedTuple):
    """The end of a line: its number from 1, its hash, and the length of the log in bytes."""

    line: Natural = 0
    sha256: Sha256 = "0" * 64
    end: Natural = 0


class LoggedLine(NamedTuple):
    """A complete line: its end, its name for messages, and its event."""

    at: Position
    where: str
    event: Line


def chained(body: bytes, at: Position, time: str | None = None) -> tuple[bytes, Position]:
    """Returns the line of a JSON object that follows a position, and the position after it."""
    when = b"" if time is None else b',"time":"%b"' % time.encode()
    body = b'%b%b,"previous":"%b"' % (body[:-1], when, at.sha256.encode())
    digest = hashlib.sha256(body).hexdigest()
    line = body + _ENDS[0] % digest.encode()
    return line, Position(at.line + 1, digest, at.end + len(line))


def now() -> str:
    """Returns the time in UTC, as the lines hold it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z"


@contextmanager
def of_line(where: str) -> Iterator[None]:
    """Re-raises every error as a FairbanditError that names the line."""
    try:
        yield
    except Exception as error:  # a crafted line may cause any error
        kind = "" if isinstance(error, FairbanditError) else f"{type(error).__name__}: "
        raise FairbanditError(f"{where}: {kind}{str(error)[:500]}") from error


def own_lines(path: Path, new: bool = False, at: Position | None = None) -> Iterator[LoggedLine]:
    """Yields the lines of a log after a position, or from the header on; a `new` log may be empty.

    A last line that was cut off, for example by a crash, is left out with a notice. A damaged line
    raises a `FairbanditError`.
    """
    at = at or Position()
    with open_regular(path) as file:
        file.seek(at.end)
        for line in file:
            where = f"{path}, line {at.line + 1}"
            cut = not line.endswith(b"\n") and not line[:-1].endswith(b'"}')
            begin = line[: len(_BEGIN) + 1].replace(b" ", b"")
            if cut and (begin.startswith(_BEGIN) or _BEGIN.startswith(begin)):
                _log.warning("%s is cut off and left out", where)
                break
            with of_line(where):
                event, digest = _verified(line, at)
                if isinstance(event, Header) != (at.line == 0):
                    raise FairbanditError("the first line, and no other line, must be a header")
            at = Position(at.line + 1, digest, at.end + len(line))
            yield LoggedLine(at, where, event)
    if not at.line and not new:
        raise FairbanditError(f"{path} is not a log of an agent: it has no header")


def holds(path: Path, at: Position) -> bool:
    """Whether a line with the hash of a position ends there."""
    end = b'"%b"}\n' % at.sha256.encode()
    with open_regular(path) as file:
        file.seek(max(at.end - len(end), 0))
        return file.read(len(end)) == end


def _verified(line: bytes, at: Position) -> tuple[Line, str]:
    for end in _ENDS:
        body = line[: 2 - len(end) - 64]  # the two bytes of %b
        digest = hashlib.sha256(body).hexdigest()
        if line[len(body) :] == end % digest.encode():
            event = event_of(body + b"}")
            if event.previous != at.sha256:
                raise FairbanditError("a line is missing before it, or was added or moved")
            return event, digest
    raise FairbanditError("it is damaged: its SHA-256 does not fit its contents")


class LogFile:
    """Appends to a log, which is locked against other agents; a folder gets a new file.

    The lock is of the file and not of its path, so that links share it. A call cuts off the bytes
    that an interrupted call left behind the end, which the caller keeps.
    """

    _file = -1  # the descriptor of an open file
    _last = b""  # the bytes that may follow the end of the log

    def __init__(self, path: str | PathLike[str], fsync: bool = False) -> None:
        self.path, self._fsync = Path(os.path.realpath(path)), fsync
        with of_file(self.path, "cannot open the log"):
            if str(path).endswith(("/", os.sep)) or self.path.is_dir():
                self.path.mkdir(parents=True, exist_ok=True)
                began = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ-")  # in the order of time
                file, name = tempfile.mkstemp(".jsonl", began, self.path)
                os.close(file)
                self.path = Path(name)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            if not lock_descriptor(self._file, blocking=False):
                raise FairbanditError(
                    f"another agent appends to {path}: close it first, or give each worker a "
                    "number and a log of its own (docs/workers.md)"
                )

    @property
    def size(self) -> int:
        """The length of the file in bytes."""
        return os.fstat(self._file).st_size

    def begin(self, end: int) -> None:
        """Treats the rest of the file after a position as a line that was cut off."""
        self._last = os.pread(self._file, self.size, end)

    def append(self, data: bytes, end: int) -> None:
        """Writes complete lines from a position on; on an error, the file keeps its old end."""
        if self._file < 0:
            raise FairbanditError(
                f"{self.path} was closed, or belongs to the process that opened it, of which this "
                "process is a fork; load a saved agent with log=... to go on"
            )
        try:
            status, rest = os.fstat(self._file), b""
            if status.st_size > end:
                rest = os.pread(self._file, len(self._last) + 1, end)
            same = os.path.samestat(status, self.path.stat())
            if not same or status.st_size < end or not self._last.startswith(rest):
                raise FairbanditError(
                    f"nothing was decided: another program replaced {self.path}, shortened it or "
                    "wrote to it; save the agent and load it with a log of its own"
                )
            if rest:  # the previous call was interrupted
                os.ftruncate(self._file, end)
            self._last = data
            if os.write(self._file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._fsync:
                os.fsync(self._file)
            self._last = b""
        except OSError as error:
            if self._last is data:
                os.ftruncate(self._file, end)
            raise FairbanditError(
                f"nothing was decided: cannot append to {self.path}: {error.strerror or error}"
            ) from error

    def close(self, unlock: bool = True) -> None:
        """Closes the file and releases its lock; a fork leaves the lock to its parent."""
        if self._file >= 0:
            if unlock:
                unlock_descriptor(self._file)
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        """Releases the lock, even if a fork has the file open."""
        self.close()
