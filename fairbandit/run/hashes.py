"""Hashes of the contents of files, computed once for each version of a file."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from fairbandit.environments.acs import default_cache
from fairbandit.run.folder import written_aside

FOLDER = "hashes"
"""The subfolder of the user's cache folder that holds one file with a hash for each path."""

SETTLED = 2 * 10**9
"""Nanoseconds after which a change of a file certainly shows in its times.

Clocks of file systems advance in steps of at most 2 s (FAT), and a second change within a step does
not show. The hash of a file that changed less than a step ago is therefore not kept, as in Git.
"""


def file_hash(path: Path) -> str | None:
    """Returns the SHA-256 hash of a file's content, or None if there is no such file.

    The hash is kept in the user's cache folder with the file's size, times and inode, and is
    computed again when one of these changes. A cache that cannot be read or written is no error.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.is_file():
        return None
    before = _version(path)
    key = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
    kept = default_cache() / FOLDER / f"{key[:32]}.json"
    with suppress(OSError, ValueError, LookupError, TypeError):
        known = json.loads(kept.read_bytes())
        if known["version"] == before and isinstance(known["sha256"], str):
            return known["sha256"]
    began = time.time_ns()
    digest = sha256(path)
    if _version(path) == before and max(before["mtime_ns"], before["ctime_ns"]) < began - SETTLED:
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            with written_aside(kept) as file:
                whole = {"path": str(path.resolve()), "version": before, "sha256": digest}
                file.write(json.dumps(whole).encode())
    return digest


def sha256(path: Path) -> str:
    """Returns the SHA-256 hash of a file's content in hexadecimal digits.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version(path: Path) -> dict[str, int]:
    """Returns the size, times and inode of a file, some of which change with its content."""
    stat = path.stat()
    times = {"mtime_ns": stat.st_mtime_ns, "ctime_ns": stat.st_ctime_ns}
    return {"size": stat.st_size, **times, "inode": stat.st_ino}
