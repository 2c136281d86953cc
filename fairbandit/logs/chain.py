"""The file of an agent's log: a chain of JSON lines.

A line is `{..., "previous": H, "sha256": h}`, where H is the hash of the line before (64 zeros for
the first line) and h is the hash of the line's own bytes up to `, "sha256"`. Changing, removing,
adding or moving a line changes the last hash.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from filelock import lock_descriptor, unlock_descriptor

from fairbandit.errors import FairbanditError
from fairbandit.files.files import of_file, open_regular
from fairbandit.files.formats import Plain
from fairbandit.logs.records import HEADER, RECORD

_BEGIN = b'{"kind": "'
_MARK = b', "sha256": "'
_END = b'"}\n'
_TAIL = len(_MARK) + 64 + len(_END)

_log = logging.getLogger("fairbandit")


class Position(NamedTuple):
    """The end of a line: its number from 1, its hash, and the length of the log in bytes."""

    line: int = 0
    sha256: str = "0" * 64
    end: int = 0


class Line(NamedTuple):
    """A complete line: its end, its name for messages, and its record."""

    at: Position
    where: str
    record: dict[str, Any]


def text(value: Any) -> str:
    """Returns plain data as JSON, whose floats are read back exactly."""
    try:
        return _JSON.encode(value)
    except (AttributeError, TypeError, ValueError) as error:
        raise FairbanditError(
            f"cannot write to the log: {error}; a group label must be a text, a number, a boolean, "
            "None or a tuple of such labels"
        ) from error


_JSON = json.JSONEncoder(allow_nan=False, default=lambda scalar: scalar.item())


def encoded(record: Mapping[str, Any], at: Position) -> tuple[bytes, Position]:
    """Returns the bytes of the line that follows a position, and the position after it.

    >>> line, _ = encoded({"kind": "reward", "reward": 0.1}, Position())
    >>> line[:32]
    b'{"kind": "reward", "reward": 0.1'
    """
    body = text({**record, "previous": at.sha256}).encode()[:-1]
    digest = hashlib.sha256(body).hexdigest()
    line = body + _MARK + digest.encode() + _END
    return line, Position(at.line + 1, digest, at.end + len(line))


@contextmanager
def of_line(where: str) -> Iterator[None]:
    """Re-raises every error as a FairbanditError whose message begins with the line."""
    try:
        yield
    except Exception as error:  # a crafted line may cause any error
        kind = "" if isinstance(error, FairbanditError) else f"{type(error).__name__}: "
        raise FairbanditError(f"{where}: {kind}{str(error)[:500]}") from error


def own_lines(path: Path, new: bool = False) -> Iterator[Line]:
    """Yields the lines of a log, the header first; a damaged line raises a `FairbanditError`.

    A last line that was cut off, for example by a crash, is left out with a notice. A `new` log may
    be empty.
    """
    at = Position()
    with open_regular(path) as file:
        for line in file:
            where = f"{path}, line {at.line + 1}"
            cut = not line.endswith(b"\n") and not line[:-1].endswith(b'"}')
            if cut and _BEGIN.startswith(line[: len(_BEGIN)]):
                _log.warning("%s is cut off and left out", where)
                break
            body = line[:-_TAIL]
            digest = hashlib.sha256(body).hexdigest()
            with of_line(where):
                if line[-_TAIL:] != _MARK + digest.encode() + _END:
                    raise FairbanditError("it is damaged: its SHA-256 does not fit its contents")
                record = msgspec.convert(json.loads(body + b"}"), Plain)
                if record.pop("previous", None) != at.sha256:
                    raise FairbanditError("a line is missing before it, or was added or moved")
                msgspec.convert(record, RECORD if at.line else HEADER)
            at = Position(at.line + 1, digest, at.end + len(line))
            yield Line(at, where, record)
    if not at.line and not new:
        raise FairbanditError(f"{path} is not a log of an agent: it has no header")


class LogFile:
    """Appends to a log, which is locked against other agents; a folder gets a new file.

    The lock belongs to the file and not to its path, so that links share it. The caller keeps the
    end of the log. A call cuts off the bytes that a failed or interrupted call left behind the end.

    Raises:
        FairbanditError: the file cannot be opened, or another agent appends to it.
    """

    _file = -1  # the descriptor of an open file
    _last = b""  # the bytes that may follow the end of the log

    def __init__(
        self, path: str | PathLike[str], contexts: bool = True, fsync: bool = False
    ) -> None:
        self.path, self._contexts, self._fsync = Path(os.path.realpath(path)), contexts, fsync
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
                    f"another agent appends to {path}; give each a log, or `del` the other first"
                )

    @property
    def size(self) -> int:
        """The length of the file in bytes."""
        return os.fstat(self._file).st_size

    def line(self, entry: Mapping[str, Any], at: Position) -> tuple[bytes, Position]:
        """Returns the line of an entry after a position, and the position after the line."""
        record = {**entry, "time": datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z"}
        if not self._contexts:
            record.pop("contexts", None)
        return encoded(record, at)

    def begin(self, end: int) -> None:
        """Treats the rest of the file after a position as a line that was cut off."""
        self._last = self._rest(end, self.size)

    def append(self, data: bytes, end: int) -> None:
        """Writes complete lines from a position on; on an error, the file keeps its old end."""
        if self._file < 0:
            raise FairbanditError(
                f"{self.path} belongs to the process that opened it; this process is a fork of it, "
                "and its agent needs a log of its own: load a saved agent with log=..."
            )
        with of_file(self.path, "nothing was decided: cannot append to"):
            rest = self._rest(end, len(self._last) + 1)
            same = os.path.samestat(os.fstat(self._file), self.path.stat())
        if not same or self.size < end or not self._last.startswith(rest):
            raise FairbanditError(
                f"nothing was decided: another program replaced {self.path}, shortened it or wrote "
                "to it; save the agent and load it with a log of its own"
            )
        try:
            if rest:  # the previous call was interrupted
                os.ftruncate(self._file, end)
            self._last = data
            if os.write(self._file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._fsync:
                os.fsync(self._file)
            self._last = b""
        except OSError as error:
            os.ftruncate(self._file, end)
            raise FairbanditError(
                f"cannot append to {self.path}: {error.strerror or error}; nothing was decided"
            ) from error

    def close(self, unlock: bool = False) -> None:
        """Closes the file; a fork leaves the lock to its parent."""
        if self._file >= 0:
            if unlock:
                unlock_descriptor(self._file)
            os.close(self._file)
            self._file = -1

    def _rest(self, start: int, most: int) -> bytes:
        os.lseek(self._file, start, os.SEEK_SET)
        return os.read(self._file, most)

    def __del__(self) -> None:
        """Releases the lock, even if a fork has the file open."""
        self.close(unlock=True)
