"""Files that appear whole or not at all, first free names, and hashes of contents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".unfinished"
"""How the name of a file ends that is being written; the next writer replaces it."""


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


def fresh(path: Path) -> Path:
    """Returns the first of path, path-2, path-3, … that is missing or an empty folder."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(
        one
        for one in chain([path], numbered)
        if not one.exists() or (one.is_dir() and not any(one.iterdir()))
    )


def sha256(path: Path) -> str:
    """Returns the SHA-256 hash of a file's content in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_hash(path: Path) -> str | None:
    """Returns the SHA-256 hash of a data file, or None if there is no such file.

    It is computed once in a process for each size, time and inode of the file, since the jobs of a
    sweep ask for the same data again and again.
    """
    if not path.is_file():
        return None
    stat = path.stat()
    return _data_hash(path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


@cache
def _data_hash(path: Path, *version: int) -> str:
    return sha256(path)
