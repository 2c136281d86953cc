"""In which of their settings runs differ, and how these are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys in which not all settings agree, in the order of the settings.

    >>> differing([{"seed": 0, "a": 1}, {"seed": 1, "a": 1, "b": 2}])
    ['seed', 'b']
    """
    columns = {key: [one.get(key) for one in settings] for key in union(settings)}
    # the type tells True from 1, which are equal in Python
    told = {key: {(isinstance(v, bool), v) for v in values} for key, values in columns.items()}
    return [key for key, values in told.items() if len(values) > 1]


def telling(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys that tell settings apart beside the policy and the environment.

    What differs only because another policy or environment was named, such as the estimator of
    another policy, tells nothing more than that name.

    >>> telling([{"policy": "oful", "policy.rank.name": "identity", "seed": 0},
    ...          {"policy": "gmf", "policy.rank.name": "oracle_cdf", "seed": 1}])
    ['seed']
    """

    def named(row: Mapping[str, Any], key: str) -> Any:
        if key.startswith("environment."):
            return row.get("environment")
        return row.get("policy") if key.startswith("policy.") else None

    found = []
    for key in differing(rows):
        values: dict[Any, set[Any]] = {}
        for row in rows:
            value = row.get(key)
            values.setdefault(named(row, key), set()).add((isinstance(value, bool), value))
        if key not in ("policy", "environment") and any(len(own) > 1 for own in values.values()):
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
    """Merges rows of names; a name that only some rows have gets its place from the first of them.

    >>> union([["a", "d"], ["a", "b", "d"]])
    ['a', 'b', 'd']
    """
    order: list[str] = []
    known: set[str] = set()
    for row in map(list, rows):
        if known.issuperset(row):
            continue
        at = 0
        for name in row:
            if name not in known:
                order.insert(at, name)
                known.add(name)
            at = order.index(name) + 1
    return order
