"""Finds and names the settings in which runs differ, and selects runs by their settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairbandit.errors import FairbanditError

_CHOICES = ("policy", "environment")


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys whose values differ, in the order of the settings.

    >>> differing([{"seed": 0, "a": 1}, {"seed": 1, "a": 1, "b": 2}])
    ['seed', 'b']
    """
    return [key for key in union(settings) if len({run.get(key) for run in settings}) > 1]


def distinguishing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys in which settings differ, apart from the names of policy and environment.

    A key is left out if it differs only because the policy or the environment differs, such as
    the estimator of another policy.

    >>> distinguishing([{"policy": "oful", "policy.rank.name": "identity", "seed": 0},
    ...                 {"policy": "gmf", "policy.rank.name": "oracle_cdf", "seed": 1}])
    ['seed']
    """
    keys = []
    for key in differing(rows):
        owner, dot, _ = key.partition(".")
        owner = owner if dot and owner in _CHOICES else ""  # the owner of environment.noise
        pairs = {(row.get(owner), row.get(key)) for row in rows}
        if key not in _CHOICES and len(pairs) > len({named for named, _ in pairs}):
            keys.append(key)
    return keys


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Returns the last part of each dotted key, or the whole key if the last part is ambiguous.

    The key of a part's name is shortened to the kind of the part.

    >>> short_names(["policy.rank.name", "policy.rank.alpha"])
    {'policy.rank.name': 'rank', 'policy.rank.alpha': 'alpha'}
    >>> short_names(["metrics.a.x", "metrics.b.x"])
    {'metrics.a.x': 'metrics.a.x', 'metrics.b.x': 'metrics.b.x'}
    """
    short = {key: key.removesuffix(".name").rpartition(".")[2] for key in keys}
    lasts = list(short.values())
    return {key: last if lasts.count(last) == 1 else key for key, last in short.items()}


def union(rows: Iterable[Iterable[str]]) -> list[str]:
    """Returns the distinct names in the rows, in order of their first occurrence."""
    return list(dict.fromkeys(name for row in rows for name in row))


def full_key(settings: Sequence[Mapping[str, Any]], end: str) -> str:
    """Returns the key with the given end; of several such keys, the one whose values differ.

    Raises:
        FairbanditError: no key has this end, or the key is ambiguous.
    """
    keys, apart = union(settings), differing(settings)
    if end in keys:
        return end
    matches = [key for key in keys if f".{key.removesuffix('.name')}".endswith(f".{end}")]
    matches = [key for key in matches if key in apart] or matches
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise FairbanditError(f"{end!r} may be {' or '.join(matches)}; write the whole key")
    raise FairbanditError(f"no run has a setting {end!r}; the settings are {', '.join(keys)}")


def chosen(settings: Sequence[Mapping[str, Any]], where: Mapping[str, Sequence[Any]]) -> list[int]:
    """Returns the indices of the settings that match a condition.

    Args:
        settings: the settings of each run.
        where: allowed values by key, where a key is resolved by `full_key`; a text may also hold
            a value in JSON.

    Raises:
        FairbanditError: a key is unknown or ambiguous, or no run has an allowed value.

    >>> chosen([{"a": 1.0}, {"a": 2.0}, {"a": True}], {"a": ["1", "3"]})
    [0]
    """
    kept = list(range(len(settings)))
    for end, values in where.items():
        key = full_key(settings, end)
        present = [settings[at].get(key) for at in kept]
        kept = [at for at in kept if any(_matches(settings[at].get(key), v) for v in values)]
        if not kept:
            known = dict.fromkeys(v if isinstance(v, str) else json.dumps(v) for v in present)
            raise FairbanditError(
                f"no run has {end}={' or '.join(map(str, values))}; its values are "
                f"{', '.join(known)}"
            )
    return kept


def _matches(value: Any, wanted: Any) -> bool:
    """Whether a value equals the wanted value, or its JSON text; 1 equals 1.0, but not true."""
    if isinstance(wanted, str) and not isinstance(value, str):
        try:
            wanted = json.loads(wanted)
        except ValueError:
            return False
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
