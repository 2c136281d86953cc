"""The columns of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CLOSE = 1e-3
"""The largest error of a feature from which a code is read."""


class Column(NamedTuple):
    """A column of numbers, of the codes of a category, or of the labels of groups.

    `span` is the least and the greatest number of the table, if the column holds numbers, and
    `whole` says whether all of them are whole.
    """

    name: str
    label: bool
    codes: Sequence[Any]
    reference: Sequence[Any]
    means: Sequence[float] = ()
    deviations: Sequence[float] = ()
    span: Sequence[float] = ()
    whole: bool = False

    def codes_in(self, features: NDArray[np.float64]) -> NDArray[Any]:
        """Returns the code of each row, (n,), from its features, (n, width).

        It is None if the features are not one-hot, or are all 0, as of a missing cell.
        """
        values = features * self.deviations + self.means
        place = values.argmax(1)
        ones = place[:, None] == np.arange(len(self.codes))
        one = (np.abs(values - ones) < CLOSE).all(1) & features.any(1)
        return np.array([*self.codes, None], dtype=object)[np.where(one, place, -1)]


class Product(NamedTuple):
    """The products of the features of two columns, standardised like a column."""

    one: str
    other: str
    means: Sequence[float]
    deviations: Sequence[float]
