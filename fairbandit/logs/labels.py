"""Group labels as plain data, for files."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown


def written(label: Hashable) -> Any:
    """A label as plain data for a file.

    Raises:
        FairbanditError: a label of a type that files do not hold.
    """
    if label is None or isinstance(label, (str, float, int)):
        return label
    if isinstance(label, tuple):
        return [written(one) for one in label]
    raise FairbanditError(
        f"the group label {shown(label)} ({type(label).__name__}) cannot be saved: files hold "
        "texts, numbers, booleans, None and tuples of these; label the groups with str(label)"
    )


def read(plain: Any) -> Hashable:
    """The label that `written` gave."""
    return tuple(map(read, plain)) if isinstance(plain, list) else plain
