"""Chooses some of the saved runs by their settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fairbandit.errors import FairbanditError
from fairbandit.results.differences import differing, union
from fairbandit.results.runs import SavedRun

Conditions = Mapping[str, Sequence[str]]
"""The values that settings may have, written as in labels, by the setting's key or its end."""


def chosen(runs: Sequence[SavedRun], where: Conditions) -> list[SavedRun]:
    """Returns the runs whose settings have certain values.

    Args:
        runs: the runs.
        where: for a key, such as policy.estimator.regularization or regularization alone, the
            values of which a run must have one. Numbers are compared as numbers.

    Raises:
        FairbanditError: no setting has such a key, several have, or no run has such a value.
    """
    kept = list(runs)
    for end, values in where.items():
        key = full_key([run.settings for run in runs], end)
        fitting = [run for run in kept if _is_one_of(run.settings.get(key), values)]
        if not fitting:
            there = dict.fromkeys(text_of(run.settings[key]) for run in kept if key in run.settings)
            raise FairbanditError(
                f"no run has {end}={' or '.join(values)}; its values are {', '.join(there)}"
            )
        kept = fitting
    return kept


def full_key(settings: Sequence[Mapping[str, Any]], end: str) -> str:
    """Returns the key that ends so; if several do, the one in which the settings differ.

    Raises:
        FairbanditError: no setting has such a key, or several have.
    """
    keys, differences = union(settings), differing(settings)
    if end in keys:
        return end
    found = [key for key in keys if f".{key.removesuffix('.name')}".endswith(f".{end}")]
    telling = [key for key in found if key in differences] or found
    if len(telling) == 1:
        return telling[0]
    if telling:
        raise FairbanditError(f"{end!r} may be {' or '.join(telling)}; write the whole key")
    raise FairbanditError(f"no run has a setting {end!r}; the settings are {', '.join(keys)}")


def _is_one_of(value: Any, texts: Sequence[str]) -> bool:
    return text_of(value) in {text_of(_meant(text)) for text in texts} | set(texts)


def _meant(text: str) -> Any:
    """The value that a text writes in JSON, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def text_of(value: Any) -> str:
    """Returns a text that is the same for equal values: 1 and 1.0, but not 1 and true."""
    if isinstance(value, str):
        return value
    return json.dumps(float(value) if type(value) is int else value)
