"""The folder of a run. Only one process at a time writes to it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fairbandit.errors import FairbanditError
from fairbandit.files.files import UNFINISHED, fresh

SUMMARY = "summary.json"
"""The summary. It is written last, so a folder with this file holds a finished run."""

EVENTS = "events.out.tfevents.*.fairbandit"
ROUNDS, FINALS, CURVES = "rounds", "finals.parquet", "curves.parquet"
REWARDS = "rewards.parquet"
"""The true reward distributions of the groups."""

PART = r"part-[0-9]{6,}-[0-9]{9,}\.parquet"
FILES = rf"\A({ROUNDS}/{PART}|{FINALS}|{CURVES}|{REWARDS})\Z"
"""The paths of all Parquet files in the folder, as a regular expression."""

CHECKPOINT = "checkpoint.pt"
"""The results of the finished batches of an unfinished run."""

LOCK = ".lock"
ERROR = "error.txt"
"""The error of a failed job of a sweep, in the folder of the job; the last line is a short form."""

LONGEST = 80
"""The largest number of characters in the name of a folder."""

_NO_MATTER = ("resume", "threads", "figures", "callbacks")  # keys that name no folder
_REPLACED = re.compile(r"\.old-[0-9a-f]{12}(-\d+)?\Z")  # the end of the name of a folder set aside


@contextmanager
def claim(folder: Path, taken: str = "", *, wait: bool = False) -> Iterator[None]:
    """Creates a folder and locks it; the lock of a killed process is released.

    Another process that holds the lock is waited for, or is an error with the message `taken`.
    """
    lock = FileLock(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if wait else 0, poll_interval=0.1)
    except Timeout:
        raise FairbanditError(taken or f"another run is writing to {folder}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # for example, the folder has become read-only
            (folder / LOCK).unlink(missing_ok=True)
        lock.release()


def set_aside(folder: Path) -> Path:
    """Moves the files of a finished run to the sibling `NAME.old-HASH`, which readers ignore.

    HASH is a hash of the summary, which is moved first: if the process is killed midway, the folder
    holds an unfinished run.
    """
    digest = hashlib.sha256((folder / SUMMARY).read_bytes()).hexdigest()[:12]
    aside = fresh(folder.absolute().with_name(f"{folder.absolute().name}.old-{digest}"))
    aside.mkdir(exist_ok=True)
    for pattern in (SUMMARY, FINALS, CURVES, REWARDS, ROUNDS, ".hydra", EVENTS):
        for path in folder.glob(pattern):
            path.rename(aside / path.name)
    return aside


def clear(folder: Path, keep: Collection[str] = ()) -> None:
    """Removes the files of an interrupted run from a folder, except for Parquet files to keep."""
    for pattern in (f"{ROUNDS}/part-*", EVENTS, f"*{UNFINISHED}"):
        for path in folder.glob(pattern):
            if path.name not in keep:
                path.unlink(missing_ok=True)


def finished_below(folder: Path) -> Iterator[str]:
    """Yields the folders of the finished runs below a folder, except for replaced results."""

    def refuse(error: OSError) -> None:
        raise FairbanditError(f"cannot read {error.filename}: {error.strerror}") from error

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not _REPLACED.search(name)]
        if SUMMARY in {*files, *folders}:
            yield place


def folder_name(
    overrides: Iterable[str], but: Collection[str] = (), swept: Iterable[str] = ()
) -> str:
    """Makes a folder name from the overrides of a run or of a sweep, which are KEY=VALUE words.

    Different overrides make different names: a name that was shortened, or whose special
    characters were replaced, ends with 64 bits of a hash. `resume`, `threads`, `figures` and the
    keys in `but` are left out.

    A `swept` key is written without its values, so that the same command with further values
    continues in the same folder. The folders of the jobs are named by the values.

    >>> folder_name(["policy=oful", "policy.estimator.exploration=0.1", "policy/rank=identity"])
    'policy-oful_estimator.exploration-0.1_rank-identity'
    >>> folder_name(["environment.theta=[1,2]"])
    'environment.theta-1+2-4b912523e1fafd60'
    >>> folder_name(["rounds=100", "resume=true"], swept=["policy", "seed"])
    'policy_seed_rounds-100'
    """
    words = [_short(key) for key in swept]
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key not in _NO_MATTER and key not in but:
            words.append(f"{_short(key)}-{value}")
    text = "_".join(words) or "default"
    bare = re.sub(r"[][(){}]", "", text)  # as a hyphen, a bracket would look like a minus sign
    safe = re.sub(r"[^A-Za-z0-9._,-]+", "-", bare).strip("-.").replace(",", "+")
    if safe.replace("+", ",") == text and len(safe) <= LONGEST:
        return safe
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{safe[: LONGEST - 17]}-{digest}"


def _short(key: str) -> str:
    """Returns a key without `policy/`, or `policy.` where a part's parameter follows."""
    return re.sub(r"^(policy/|policy\.(?=\w+\.))", "", key)
