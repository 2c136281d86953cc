"""Labels of groups: one normal form, by which every door compares them.

Agents, logs, tables and truths may spell one group in several ways. Two labels are one group if
their normal forms are equal. The spelling that comes first is kept, for output.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError

NUMBER = r"(?i:[-+]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:e[-+]?[0-9]+)?)"
"""How numbers are spelled, as a regular expression."""

JOINED = " × "
"""The separator of the labels of an intersectional group."""


class Group(NamedTuple):
    """A group that is known: its number, and the spelling that came first."""

    code: int
    spelling: Hashable


Codes = Mapping[str, Group]
"""The known groups by the normal forms of their labels, in the order of their numbers."""


def normal(label: Any) -> str:
    """The normal form of a label, a text.

    Different spellings of one number or truth value are one label: `1`, `1.0`, `01` and `"1e0"` are
    `1`, and `True` and `"TRUE"` are `true`. So are the Unicode forms of one text, with or without
    blanks around it. The labels of an intersectional group, in a tuple or a list, are joined.

    >>> normal(1), normal("01"), normal(True), normal(("f", 2.0))
    ('1', '1', 'true', 'f × 2')
    """
    if isinstance(label, (tuple, list)) and label:
        return JOINED.join(map(normal, label))
    label = _item(label)
    if isinstance(label, Enum) and isinstance(label, (str, int)):
        label = label.value
    return _normal(label if isinstance(label, str) else str(label))


@lru_cache(1 << 16)
def _normal(text: str) -> str:
    text = normalize("NFC", text.strip())
    if text.lower() in ("true", "false"):
        return text.lower()
    if len(text) > 15 or not re.fullmatch(NUMBER, text):  # float64 holds 15 digits
        return text
    value = float(text)
    return str(int(value)) if value.is_integer() else repr(value)


def coded(labels: Collection[Any], known: Codes) -> tuple[NDArray[np.int64], Codes]:
    """The numbers of some labels, and all groups: new ones get the next numbers, as they appear.

    Raises:
        FairbanditError: a label that is not hashable, or not equal to itself, as NaN.
    """
    found = [known.get(label) if type(label) is str else None for label in labels]
    if None not in found:  # as most labels of agents
        return np.array([group.code for group in found if group], np.int64), known
    try:
        plain = [_plain(label) for label in labels]
        forms = [normal(label) for label in plain]
        if not all(map(known.__contains__, forms)):
            every = dict(known)
            for form, label in zip(forms, plain, strict=True):
                if form not in every:
                    every[form] = Group(len(every), label)
            known = every
    except Exception as error:  # whatever a label's own methods may raise
        raise FairbanditError(
            f"groups: expected hashable labels that are equal to themselves; {error}"
        ) from error
    return np.array([known[form].code for form in forms], np.int64), known


def spellings(known: Codes) -> tuple[Hashable, ...]:
    """The labels of all known groups, as they were first spelled, in the order of their numbers."""
    return tuple(group.spelling for group in known.values())


def _plain(label: Any) -> Any:
    """A label without NumPy scalars and tensors, within tuples too."""
    if type(label) is tuple:
        label = tuple(map(_plain, label))
    label = _item(label)
    hash(label)  # a TypeError, if it has none
    if not label == label:
        raise ValueError(f"got {label!r}")
    return label


def _item(label: Any) -> Any:
    """The number that a NumPy scalar or a tensor holds; any other label as it is."""
    if isinstance(label, (type, np.ndarray)):  # an array has no hash, nor has a masked label
        return label
    return label.item() if hasattr(label, "item") else label
