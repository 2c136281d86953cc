"""Names the folders of runs and sweeps by their overrides."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable

LONGEST = 80
"""The largest number of characters of a name."""

_NO_MATTER = ("resume", "threads", "figures")


def folder_name(
    overrides: Iterable[str], but: Collection[str] = (), swept: Iterable[str] = ()
) -> str:
    """Returns a folder name from the overrides of a run or of a sweep, which are KEY=VALUE words.

    Different overrides make different names: a name that had to be shortened, or whose special
    characters had to go, ends with 64 bits of a hash. `resume`, `threads` and `figures` do not
    count, nor do the keys `but`.

    A key that is `swept` counts by itself, so that the same command with further values goes on in
    the same folder. The folders of its jobs are named by the values.

    >>> folder_name(["policy=oful", "policy.estimator.exploration=0.1", "policy/rank=identity"])
    'policy-oful_estimator.exploration-0.1_rank-identity'
    >>> folder_name(["environment.theta=[1,2]"])
    'environment.theta--1+2-4b912523e1fafd60'
    >>> folder_name(["rounds=100", "resume=true"], swept=["policy", "seed"])
    'policy_seed_rounds-100'
    """
    words = [_short(key) for key in swept]
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key not in _NO_MATTER and key not in but:
            words.append(f"{_short(key)}-{value}")
    text = "_".join(words) or "default"
    safe = re.sub(r"[^A-Za-z0-9._,-]+", "-", text).strip("-.").replace(",", "+")
    if safe.replace("+", ",") == text and len(safe) <= LONGEST:
        return safe
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{safe[: LONGEST - 17]}-{digest}"


def _short(key: str) -> str:
    """Returns a key without `policy/`, or `policy.` where a part's parameter follows."""
    return re.sub(r"^(policy/|policy\.(?=\w+\.))", "", key)
