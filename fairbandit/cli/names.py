"""Names the folders of runs and sweeps by their overrides."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from fairbandit.errors import FairbanditError

LONGEST = 80
"""The largest number of characters of a name."""

_NO_MATTER = ("resume", "threads", "figures")


def folder_name(text: str) -> str:
    """A short file name without special characters, with a hash if the text had to be changed.

    >>> folder_name("oful_seed-1")
    'oful_seed-1'
    >>> folder_name("policy-oful,greedy")
    'policy-oful+greedy'
    >>> folder_name("theta-[1,2]")
    'theta--1+2-a97ab4'
    """
    safe = re.sub(r"[^A-Za-z0-9._,-]+", "-", text).strip("-.").replace(",", "+")
    if safe.replace("+", ",") == text and len(safe) <= LONGEST:
        return safe
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{safe[: LONGEST - 7]}-{digest}"


def job_name(overrides: Iterable[str], unsaid: Collection[str] = ()) -> str:
    """A folder name from the overrides of a run or of a sweep.

    Different overrides make different names; `resume`, `threads` and `figures` do not count.

    Args:
        overrides: KEY=VALUE words.
        unsaid: further keys that do not count.

    >>> job_name(["policy=oful", "policy.estimator.exploration=0.1", "policy/rank=identity"])
    'policy-oful_estimator.exploration-0.1_rank-identity'
    >>> job_name(["policy=oful,greedy", "seed=0,1", "resume=false"])
    'policy-oful+greedy_seed-0+1'
    """
    words = []
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if key.partition(".")[0] not in _NO_MATTER and key not in unsaid:
            short = re.sub(r"^policy[./]", "", key).replace("/", ".")
            words.append(f"{short}-{value}".rstrip("-"))
    return folder_name("_".join(words) or "default")


def check_output(key: str, text: str) -> None:
    """Checks the name of an output folder.

    Args:
        key: the config key that gives the name, for the message.
        text: the name.

    Raises:
        FairbanditError: the name is empty, or that of the root of the file system.
    """
    place = Path(text).resolve()
    if not text.strip() or place == place.parent:
        raise FairbanditError(f"{key} must name a folder for the output, got {text!r}")
