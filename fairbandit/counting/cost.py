"""The costs of the ways to count past scores, in units of one comparison in a chunked scan.

They decide how scores are counted. Counts differ only if a past score is within rounding of the
value that it is compared with.
"""

from __future__ import annotations

import math

SLICE = 150  # the cost of the slice of one value
SLICE_SCORE = 1.5  # the cost of one of the scores that slices are cut from
SLICE_COMPARISON = 0.25  # the cost of one comparison within a slice
SLICE_SCORES = 1 << 22  # the largest number of scores of a replica that slices are cut from
SCAN, SCAN_GROUP = 100_000, 25_000  # the costs of starting a scan, and of each of its groups

SEARCH, SEARCH_SETUP = 1200, 400
"""The cost of searching a sorted segment for one value; and the setup of a search, in values times
d: it costs SEARCH·SEARCH_SETUP/d, since a comparison takes longer with more features d."""

RESCORE = 20  # the cost of scoring one sorted entry again
SORT = 100  # the cost of sorting one entry
SORTED_COST = 150_000  # contexts are sorted only for a count that costs at least this

RETRY = 1.5
"""Where sorting did not pay, it is tried again once a count costs this many times as much."""


def cheapest(scores: float, comparisons: float, values: int, groups: int) -> tuple[bool, float]:
    """Whether slices of the windows cost less than a scan, and the cost of the cheaper way.

    `scores` is the number of scores that slices are cut from, under all models; ∞ excludes slices.
    `comparisons` is the sum of the sizes of all values' windows.
    """
    scanned = comparisons + SCAN + SCAN_GROUP * groups
    sliced = SLICE * values + SLICE_SCORE * scores + SLICE_COMPARISON * comparisons
    return sliced < scanned, min(sliced, scanned)


def search_budget(cost: float, values: int, features: int, refused: float) -> float:
    """The cost that is left for a sorted segment if it shall replace a count of this cost.

    It is negative if the count is too cheap, if sorting is known not to pay for it (`refused`), or
    if a search alone costs a third of it.
    """
    budget = cost - SEARCH * (SEARCH_SETUP / features + values)
    worthwhile = cost >= max(SORTED_COST, refused) and budget >= cost * 2 / 3
    return budget if worthwhile else -math.inf
