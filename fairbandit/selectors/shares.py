"""Guaranteed shares of the picks for each group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fairbandit.errors import FairbanditError, typed


def group_shares(given: Any, groups: int | None = None) -> list[float]:
    """The share of each group, from a list of shares or from a single number for all groups.

    Args:
        given: a number from 0 to 1, or a list with a number for each group. None stands for
            min(0.1, 1/(2G)), at most half of an equal share.
        groups: G; None if it is not known yet.

    Returns:
        G shares; the given shares if G is not known.

    Raises:
        FairbanditError: a value of another type, a list whose length is not G, or shares that sum
            to more than 1, which no sequence of picks can keep.

    >>> group_shares(None, groups=3), group_shares([0.2, 0.1], groups=2)
    ([0.1, 0.1, 0.1], [0.2, 0.1])
    """
    if given is None:
        return [min(0.1, 0.5 / groups)] * groups if groups else []
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    shares = list(given) if listed else [given] * (1 if groups is None else groups)
    if not all(type(share) in (int, float) and 0 <= share <= 1 for share in shares):
        raise FairbanditError(
            "shares (r): expected a number from 0 to 1 for all groups, or a list with a number for "
            f"each group; got {typed(given)}"
        )
    if groups is not None and len(shares) != groups:
        raise FairbanditError(
            f"shares (r): expected one for each of {groups} groups, or one number for all; got "
            f"{len(shares)}: {given}"
        )
    if math.fsum(shares) > 1:
        raise FairbanditError(
            f"shares (r) must sum to at most 1; got {given}, {math.fsum(shares):g} for all "
            f"{len(shares)} groups"
        )
    return [float(share) for share in shares]
