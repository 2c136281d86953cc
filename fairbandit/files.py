"""Files that appear whole or not at all, first free names, and hashes of contents."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

from fairbandit.errors import FairbanditError

UNFINISHED = ".unfinished"
"""How the name of a file ends that is being written; the next writer replaces it."""


@contextmanager
def of_file(path: Path, what: str = "cannot read") -> Iterator[None]:
    """Has errors of the operating system say what could not be done with a file."""
    try:
        yield
    except OSError as error:
        raise FairbanditError(f"{what} {path}: {error.strerror or error}") from error


@contextmanager
def open_regular(path: Path, what: str = "cannot read") -> Iterator[BinaryIO]:
    """Opens a regular file for reading: a named pipe or a device in its place would block for ever.

    Raises:
        FairbanditError: the file is missing, cannot be read, or is not a regular file; the message
            begins with `what` and the path.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with of_file(path, what):
        descriptor = os.open(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FairbanditError(f"{what} {path}: it is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that appears under its name only when complete, and is removed on an error."""
    unfinished = path.with_name(path.name + UNFINISHED)
    unfinished.unlink(missing_ok=True)
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def within(folder: Path, name: str) -> Path:
    """Returns the path of a subfolder in a folder that a stranger may have prepared.

    Raises:
        FairbanditError: it is a symbolic link, so that what is written would go elsewhere.
    """
    path = folder / name
    if path.is_symlink():
        raise FairbanditError(f"{path} is a link to {path.readlink()}; remove it to write there")
    return path


def fresh(path: Path) -> Path:
    """Returns the first of path, path-2, path-3, … that is missing or an empty folder."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(
        one
        for one in chain([path], numbered)
        if not one.exists() or (one.is_dir() and not any(one.iterdir()))
    )


def natural_order(text: str, decimals: bool = False) -> list[tuple[bool, float, str]]:
    """Returns a key that sorts names by their numbers; `decimals` reads 0.05 as one number."""
    number = r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?" if decimals else "[0-9]+"
    read = float if decimals else int
    pieces = re.findall(f"({number})|([^0-9]+)", text)
    return [(bool(letters), read(digits or 0), letters) for digits, letters in pieces]


def sha256(path: Path) -> str:
    """Returns the SHA-256 hash of a file's content in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_of(texts: Iterable[str]) -> str:
    """Returns one hash of several texts; the empty text of none."""
    found = list(texts)
    return hashlib.sha256("\n".join(found).encode()).hexdigest() if found else ""


def data_hash(paths: Iterable[Path]) -> str | None:
    """Returns one hash of data files, each counted once; None if one of them is missing.

    A file is hashed once in a process for each size, time and inode, since the jobs of a sweep ask
    for the same data again and again.
    """
    files = list(dict.fromkeys(paths))
    if not all(path.is_file() for path in files):
        return None
    stats = [(path, path.stat()) for path in files]
    return hash_of(
        _data_hash(path, one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino)
        for path, one in stats
    )


@cache
def _data_hash(path: Path, *version: int) -> str:
    return sha256(path)
