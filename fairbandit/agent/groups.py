"""Group labels of any kind, and the codes 0 … G−1 that policies know them by."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown

MOST = 1_000_000
"""So many groups may be named by their number."""


class Groups:
    """Labels in the order in which they were given or came: a value.

    Labels are equal as Python has it, so that 1, 1.0 and True are one group. NumPy's scalars and
    tensors of one number are the Python numbers that they hold. A label has to be equal to itself,
    since every NaN would be another group.

    Args:
        codes: of the labels, 0 … G−1.
    """

    def __init__(self, codes: Mapping[Hashable, int]) -> None:
        self._codes = codes

    @classmethod
    def of(cls, given: int | Iterable[Hashable]) -> Groups:
        """Some first labels; a number G stands for 0 … G−1.

        Raises:
            FairbanditError: neither a number of groups nor a list of labels, a label given twice,
                or one that is not hashable or not equal to itself.
        """
        labels: list[Hashable] | None = None
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            labels = list(range(given)) if 0 <= given <= MOST else None
        elif isinstance(given, Iterable) and not isinstance(given, (bool, str, bytes)):
            with suppress(TypeError):  # as of arrays and tensors without dimensions
                labels = list(given)
        if labels is None:
            raise FairbanditError(
                f"groups: expected a list of labels, or a number G ≤ {MOST:,} for 0 … G−1; got "
                f"{shown(given)}"
            )
        none = cls({})
        groups = none.joined_by(none.coded(labels)[1])
        if len(groups) < len(labels):
            raise FairbanditError(f"groups: expected labels that differ, got {shown(labels)}")
        return groups

    def __len__(self) -> int:
        """G."""
        return len(self._codes)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels, by code."""
        return tuple(self._codes)

    def joined_by(self, labels: Iterable[Hashable]) -> Groups:
        """With new labels, which get the next codes."""
        return Groups({**self._codes, **dict(zip(labels, count(len(self)), strict=False))})

    def coded(self, given: Any) -> tuple[NDArray[np.int64], list[Hashable]]:
        """Codes of labels; those which are not known get the next ones, in order of appearance.

        Args:
            given: a list of labels, or a flat array.

        Returns:
            The codes, and the labels that are new.

        Raises:
            FairbanditError: a label that is not hashable, or not equal to itself.
        """
        labels = given.tolist() if isinstance(given, np.ndarray) else given
        fresh, distinct = dict[Hashable, int](), labels
        with suppress(Exception):  # of labels that are refused below
            known = list(map(self._codes.get, labels))
            if None not in known:
                return np.array(known, np.int64), []
            distinct = dict.fromkeys(labels)
        codes = {label: self._code(label, fresh) for label in distinct}
        return np.array([codes[label] for label in labels], np.int64), list(fresh)

    def _code(self, label: Any, fresh: dict[Hashable, int]) -> int:
        """A label's code; a label that is not known joins the fresh ones."""
        try:
            code = self._codes.get(label)
            if code is None:
                label = _plain(label)
                code = self._codes.get(label)
            return fresh.setdefault(label, len(self) + len(fresh)) if code is None else code
        except FairbanditError:
            raise
        except Exception as error:  # whatever a label's own `__hash__` and `__eq__` may raise
            raise FairbanditError(
                f"groups: expected one hashable label for each candidate, got {shown(label)} "
                f"({type(label).__name__})"
            ) from error


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


def _plain(label: Any) -> Any:
    """A label as a Python object, if it is a NumPy scalar or a tensor, or a tuple with such in it.

    Raises:
        FairbanditError: a label that is not equal to itself.
    """
    if isinstance(label, (np.generic, np.ndarray, Tensor)):
        label = label.item()
    if type(label) is tuple:
        label = tuple(map(_plain, label))
    if not bool(label == label):
        raise FairbanditError(f"groups: expected labels equal to themselves, got {shown(label)}")
    return label
