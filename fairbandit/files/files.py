"""Atomic writes, safe reads, unused names, and hashes of files."""

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
"""The suffix of a file that is being written; the next writer replaces a leftover file."""


@contextmanager
def of_file(path: Path, failure: str = "cannot read") -> Iterator[None]:
    """Re-raises an OSError as a `FairbanditError` with the failure and the file in its message."""
    try:
        yield
    except OSError as error:
        raise FairbanditError(f"{failure} {path}: {error.strerror or error}") from error


@contextmanager
def open_regular(path: Path, failure: str = "cannot read") -> Iterator[BinaryIO]:
    """Opens a regular file for reading; pipes and devices, which could block, are refused."""
    if "\0" in str(path):
        raise FairbanditError(f"{failure} {path}: its name has a null character")
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with of_file(path, failure):
        descriptor = os.open(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FairbanditError(f"{failure} {path}: it is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file that is renamed to `path` when complete, and removed on an error."""
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
    """The path of a subfolder in a folder that is not trusted; a symbolic link is refused."""
    path = folder / name
    if path.is_symlink():
        raise FairbanditError(f"{path} is a link to {path.readlink()}; remove it to write there")
    return path


def fresh(path: Path) -> Path:
    """Returns the first of path, path-2, path-3, … that is missing or an empty folder."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(
        free
        for free in chain([path], numbered)
        if not free.exists() or (free.is_dir() and not any(free.iterdir()))
    )


def natural_order(text: str, decimals: bool = False) -> list[tuple[bool, float, str]]:
    """Returns a key that sorts names by their numbers; `decimals` reads 0.05 as one number."""
    number = r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?" if decimals else "[0-9]+"
    convert = float if decimals else int
    pieces = re.findall(f"({number})|([^0-9]+)", text)
    return [(bool(letters), convert(digits or 0), letters) for digits, letters in pieces]


def sha256(path: Path) -> str:
    """Returns the SHA-256 hash of a file's content in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_of(texts: Iterable[str]) -> str:
    """Returns one hash of several texts, or the empty text if there are none."""
    lines = list(texts)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def data_hash(paths: Iterable[Path]) -> str | None:
    """One hash of the distinct data files, None if a file is missing.

    The hash of a file is cached by its size, times and inode, since the jobs of a sweep read the
    same data repeatedly.
    """
    files = list(dict.fromkeys(paths))
    if not all(path.is_file() for path in files):
        return None
    stats = [(path, path.stat()) for path in files]
    return hash_of(
        _data_hash(path, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
        for path, info in stats
    )


@cache
def _data_hash(path: Path, *version: int) -> str:
    return sha256(path)
