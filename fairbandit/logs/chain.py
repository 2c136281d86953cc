"""Lines of JSON of which each holds its own SHA-256 and that of the line before.

A line is `{..., "previous": H, "sha256": h}`, where H is the hash of the line before (64 zeros for
the first line) and h is the hash of the line's own bytes up to `, "sha256"`. So no line can be
changed, left out, added or moved without a change of the last hash.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairbandit.errors import FairbanditError

START = "0" * 64
"""What stands for the hash of the line before the first one."""

_MARK = b', "sha256": "'
_END = b'"}\n'
_TAIL = len(_MARK) + 64 + len(_END)

_log = logging.getLogger("fairbandit")


class Line(NamedTuple):
    """A whole line of a chain.

    Attributes:
        number: from 1.
        record: what it says.
        sha256: its hash, in hexadecimal digits.
        end: the position after it, in bytes.
    """

    number: int
    record: dict[str, Any]
    sha256: str
    end: int


def encoded(record: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """The bytes of the line that follows one of a given hash, and its own hash.

    Floats are written with the digits that read back as the same number.

    >>> line, _ = encoded({"kind": "reward", "reward": 0.1}, START)
    >>> line[:32]
    b'{"kind": "reward", "reward": 0.1'
    """
    body = json.dumps({**record, "previous": previous}).encode()[:-1]
    digest = hashlib.sha256(body).hexdigest()
    return body + _MARK + digest.encode() + _END, digest


def lines(path: Path) -> Iterator[Line]:
    """The lines of a file, each checked.

    A last line that is cut off, as by a crash, is left out with a notice.

    Raises:
        FairbanditError: the file cannot be read, or a line is damaged; the message names it.
    """
    previous, end = START, 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n") and not line[:-1].endswith(b'"}'):
                    _log.warning("%s: the last line, %d, is cut off and left out", path, number)
                    return
                record, digest = _checked(line, previous, f"{path}, line {number}")
                previous, end = digest, end + len(line)
                yield Line(number, record, digest, end)
    except OSError as error:
        raise FairbanditError(f"cannot read {path}: {error.strerror or error}") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _checked(line: bytes, previous: str, where: str) -> tuple[dict[str, Any], str]:
    """What a line says, and its hash."""
    body, tail = line[:-_TAIL], line[-_TAIL:]
    digest = hashlib.sha256(body).hexdigest()
    if tail != _MARK + digest.encode() + _END:
        raise FairbanditError(
            f"{where}: the line is damaged or was changed: its SHA-256 is not the one that it holds"
        )
    try:
        record = json.loads(body + b"}", parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FairbanditError(f"{where}: the line is no JSON: {error}") from error
    if record.pop("previous", None) != previous:
        raise FairbanditError(
            f"{where}: the line does not follow the one before it: a line is missing, or was added "
            "or moved"
        )
    return record, digest
