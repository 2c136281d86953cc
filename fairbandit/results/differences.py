"""In which of their settings runs differ, how these are called, and which runs have some values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairbandit.errors import FairbanditError

_CHOICES = ("policy", "environment")


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys in which not all settings agree, in the order of the settings.

    >>> differing([{"seed": 0, "a": 1}, {"seed": 1, "a": 1, "b": 2}])
    ['seed', 'b']
    """
    return [key for key in union(settings) if len({one.get(key) for one in settings}) > 1]


def distinguishing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys in which settings differ, beyond the choice of policy and environment.

    A key is left out if it differs only because the policy or the environment does, such as the
    estimator of another policy.

    >>> distinguishing([{"policy": "oful", "policy.rank.name": "identity", "seed": 0},
    ...                 {"policy": "gmf", "policy.rank.name": "oracle_cdf", "seed": 1}])
    ['seed']
    """

    found = []
    for key in differing(rows):
        owner, dot, _ = key.partition(".")
        owner = owner if dot and owner in _CHOICES else ""  # the owner of environment.noise
        pairs = {(row.get(owner), row.get(key)) for row in rows}
        if key not in _CHOICES and len(pairs) > len({named for named, _ in pairs}):
            found.append(key)
    return found


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Returns the last part of each dotted key, or the whole key where that names several.

    The name of a part stands for the part.

    >>> short_names(["policy.rank.name", "policy.rank.alpha"])
    {'policy.rank.name': 'rank', 'policy.rank.alpha': 'alpha'}
    >>> short_names(["metrics.a.x", "metrics.b.x"])
    {'metrics.a.x': 'metrics.a.x', 'metrics.b.x': 'metrics.b.x'}
    """
    short = {key: key.removesuffix(".name").rpartition(".")[2] for key in keys}
    often = list(short.values())
    return {key: last if often.count(last) == 1 else key for key, last in short.items()}


def union(rows: Iterable[Iterable[str]]) -> list[str]:
    """The names in some rows, each once, in the order in which they come."""
    return list(dict.fromkeys(name for row in rows for name in row))


def full_key(settings: Sequence[Mapping[str, Any]], end: str) -> str:
    """Returns the key that ends so; if several do, the one in which the settings differ.

    Raises:
        FairbanditError: no setting has such a key, or several have.
    """
    keys, apart = union(settings), differing(settings)
    if end in keys:
        return end
    found = [key for key in keys if f".{key.removesuffix('.name')}".endswith(f".{end}")]
    found = [key for key in found if key in apart] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise FairbanditError(f"{end!r} may be {' or '.join(found)}; write the whole key")
    raise FairbanditError(f"no run has a setting {end!r}; the settings are {', '.join(keys)}")


def chosen(settings: Sequence[Mapping[str, Any]], where: Mapping[str, Sequence[Any]]) -> list[int]:
    """Returns the places of the settings that have certain values.

    Args:
        settings: those of each run.
        where: for a key, as `full_key` reads it, the values of which a run must have one, or texts
            that write them in JSON.

    Raises:
        FairbanditError: as `full_key`, or no run has such a value.

    >>> chosen([{"a": 1.0}, {"a": 2.0}, {"a": True}], {"a": ["1", "3"]})
    [0]
    """
    kept = list(range(len(settings)))
    for end, values in where.items():
        key = full_key(settings, end)
        there = [settings[at].get(key) for at in kept]
        kept = [at for at in kept if any(_same(settings[at].get(key), one) for one in values)]
        if not kept:
            known = dict.fromkeys(v if isinstance(v, str) else json.dumps(v) for v in there)
            raise FairbanditError(
                f"no run has {end}={' or '.join(map(str, values))}; its values are "
                f"{', '.join(known)}"
            )
    return kept


def _same(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, or the one that a text writes; 1 is 1.0, but not true."""
    if isinstance(wanted, str) and not isinstance(value, str):
        try:
            wanted = json.loads(wanted)
        except ValueError:
            return False
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
