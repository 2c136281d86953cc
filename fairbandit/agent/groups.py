"""Group labels of any kind, and the numbers 0 … G−1 by which policies know them.

Labels are equal as Python has it, so that 1, 1.0 and True are one group. NumPy's scalars and
tensors of one number are the Python numbers that they hold. A label has to be equal to itself,
since every NaN would be another group.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.agent import inputs
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown

Codes = Mapping[Hashable, int]
"""The numbers of all labels so far, in order."""


def initial(given: int | Sequence[Hashable]) -> Codes:
    """The numbers of an agent's first labels; a number G stands for 0 … G−1.

    Raises:
        FairbanditError: neither a number of groups nor a list of labels, or a label given twice.
    """
    if isinstance(given, (int, np.integer)):
        given = range(inputs.whole(given, "groups", most=inputs.MOST))
    labels = inputs.listed(given, "groups")
    _, codes = coded({}, labels)
    if len(codes) < len(labels):
        raise FairbanditError(f"groups: expected labels that differ, got {shown(labels)}")
    return codes


def coded(known: Codes, labels: Sequence[Any]) -> tuple[NDArray[np.int64], Codes]:
    """The numbers of some labels, and of all labels: new ones get the next, in order of appearance.

    Raises:
        FairbanditError: a label that is not hashable, or not equal to itself.
    """
    try:
        numbers = list(map(known.get, labels))
        if None not in numbers:
            return np.array(numbers, np.int64), known
        every = dict(known)
        found = {one: every.setdefault(_plain(one), len(every)) for one in dict.fromkeys(labels)}
    except Exception as error:  # whatever a label's own methods may raise
        raise FairbanditError(
            f"groups: expected hashable labels that are equal to themselves; {error}"
        ) from error
    return np.array([found[one] for one in labels], np.int64), every


def _plain(label: Any) -> Hashable:
    """A label without NumPy scalars and tensors, within tuples too."""
    if isinstance(label, (np.generic, Tensor)):
        label = label.item()
    if type(label) is tuple:
        label = tuple(map(_plain, label))
    if not label == label:
        raise ValueError(f"got {shown(label)}")
    return label
