"""Whether features tell the groups of candidates apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ENOUGH_CANDIDATES = 20
"""Two groups of this many candidates are apart in one of 10¹¹ independent features by chance."""


def holds_group(features: NDArray[np.float64], groups: NDArray[np.int64]) -> bool | None:
    """Whether one of the features alone tells two of the groups apart.

    It does if all values of one group are below all values of the other, as in an indicator, a
    code, or a number that was cut into groups; or if it is constant in one group and never that
    value in the other, as in a product with an indicator.

    Features are (n, d), groups (n,), and candidates of −1 are left out. Returns None if fewer than
    two groups have `ENOUGH_CANDIDATES` candidates.

    >>> groups = np.repeat([0, 1], 20)
    >>> hours = np.arange(40.0) % 20
    >>> holds_group(hours[:, None], groups), holds_group((hours * groups)[:, None], groups)
    (False, False)
    >>> holds_group(np.stack([hours, (hours + 1) * groups], 1), groups)
    True
    """
    members = [features[groups == group] for group in np.unique(groups[groups >= 0])]
    members = [rows for rows in members if len(rows) >= ENOUGH_CANDIDATES]
    if len(members) < 2:
        return None
    low, high = (np.stack([end(rows, 0) for rows in members]) for end in (np.min, np.max))
    if (high[:, None] < low[None]).any():
        return True
    for at, value in enumerate(low):
        constant = value == high[at]
        other_groups = members[:at] + members[at + 1 :]
        if any((rows[:, constant] != value[constant]).all(0).any() for rows in other_groups):
            return True
    return False
