"""Products of features, with which linear models follow squares and interactions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError

ALL = "all"
"""All products of two columns, squares of numbers included."""

Pairs = tuple[tuple[str, str], ...]


def pairs_of(products: Any, widths: Mapping[str, int]) -> Pairs:
    """Returns the pairs of columns whose products are features.

    Args:
        products: None, `all`, or a list of pairs of names of columns.
        widths: the number of features of each column; a category has several, and no square.

    Raises:
        FairbanditError: another value, or a pair of which a column is unknown, or twice a category.
    """
    if products == ALL:
        pairs = combinations_with_replacement(widths, 2)
        return tuple(pair for pair in pairs if _is_pair(pair, widths))
    given = [] if products is None else products
    if not isinstance(given, (list, tuple)) or not all(_is_pair(pair, widths) for pair in given):
        raise FairbanditError(
            f"products: expected {ALL}, or pairs such as [[age, hours], [age, age]] of the columns "
            f"{', '.join(widths)}, where a category has no square; got {products!r}"
        )
    return tuple(dict.fromkeys((str(one), str(other)) for one, other in given))


def _is_pair(pair: Any, widths: Mapping[str, int]) -> bool:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        return False
    known = all(isinstance(name, str) and name in widths for name in pair)
    return known and (pair[0] != pair[1] or widths[pair[0]] == 1)


def multiplied(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the products of the features of two columns, (…, w₁) and (…, w₂) to (…, w₁·w₂)."""
    products: NDArray[np.float64] = one[..., :, None] * other[..., None, :]
    return products.reshape(*one.shape[:-1], -1)
