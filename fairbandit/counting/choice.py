"""The choice of the way to count scores of linear models, and the costs that it compares.

Costs are in units of one comparison in a chunked scan. They decide how scores are counted; counts
differ only if a past score is within rounding of the value that it is compared with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, get_args

from fairbandit.errors import FairbanditError
from fairbandit.history.sorted_segment import SortedSegment

SLICE = 150
"""The cost of a slice."""

SCORE = 1.5
"""The cost of a score that slices are cut from."""

COMPARE = 0.25
"""The cost of a comparison within a slice."""

HELD = 1 << 22
"""The largest number of scores of a replica that slices are cut from."""

SCAN, GROUP = 100_000, 25_000
"""The costs of starting a scan, and of each of its groups."""

SEARCH, SEARCH_SETUP = 1200, 400
"""The cost of searching a sorted segment for one value; and the setup of a search, in values times
d: it costs SEARCH·SEARCH_SETUP/d, since a comparison takes longer with more features d."""

AGAIN = 20
"""The cost of scoring one sorted entry again."""

SORT = 100
"""The cost of sorting one entry."""

LEAST, RETRY = 150_000, 1.5
"""Contexts are sorted only for a count that costs at least `LEAST`. Where sorting did not pay, it
is tried again once a count costs `RETRY` times as much."""

Direct = Literal["sliced", "scanned"]
"""The ways to count that score every entry of the windows."""

Way = Literal["dense", "sliced", "scanned", "sorted"]
"""All ways to count, which `forced` takes."""

_forced: ContextVar[Way | None] = ContextVar("_forced", default=None)


@contextmanager
def forced(way: Way) -> Iterator[None]:
    """Counts all scores of linear models in one way until the `with` block ends, in this thread.

    All ways give equal counts, unless a past score is within rounding of the value; forcing them
    serves tests and the search for faults. Models that are not linear, confidence bounds and sums
    are always scanned, except that "dense" applies to them too.

    Args:
        way: "sliced" or "scanned" counts all entries that way. "sorted" searches a sorted segment,
            and slices or scans the entries outside it. "dense" scores every past context in every
            round and masks by window and group; it is the reference, and is slow.

    Raises:
        FairbanditError: an unknown way. Counts raise it too if the way is "sorted" and no sorted
            segment can be made: no entry is in the windows of all rounds, or contexts are too
            large.

    >>> import torch
    >>> from fairbandit import Engine, build
    >>> def picks():
    ...     parts = build({"name": "fair_greedy"}), build({"name": "simulation"})
    ...     engine = Engine(*parts, rounds=50, seed=0, replicas=[0])
    ...     return torch.cat([played.actions for played in engine.play()], 1).tolist()
    >>> with forced("dense"):
    ...     expected = picks()
    >>> picks() == expected
    True
    """
    if way not in get_args(Way):
        raise FairbanditError(f"way: expected one of {', '.join(get_args(Way))}; got {way!r}")
    token = _forced.set(way)
    try:
        yield
    finally:
        _forced.reset(token)


forced_way = _forced.get
"""Returns the way that `forced` sets; None outside it."""


class Work(NamedTuple):
    """The size of a count.

    Attributes:
        scores: the number of scores that slices are cut from, under all models; None on a device.
        compared: the number of comparisons, which is the sum of the sizes of all values' windows.
        values: the number of values.
        replicas, groups, features: B, G and d.
    """

    scores: int | None
    compared: float
    values: int
    replicas: int
    groups: int
    features: int

    @property
    def direct(self) -> tuple[Direct, float]:
        """The cheaper of slices and a scan, and its cost."""
        scanned = self.compared + SCAN + GROUP * self.groups
        if self.scores is None or self.scores > HELD * self.replicas:
            return "scanned", scanned
        sliced = SLICE * self.values + SCORE * self.scores + COMPARE * self.compared
        return ("sliced", sliced) if sliced < scanned else ("scanned", scanned)


class Choice(NamedTuple):
    """How to count.

    Attributes:
        way: how to count if a sorted segment is not used, or exceeds its budget.
        cost: the cost of this way.
        budget: the most that the entries outside the segment, and the entries that are scored
            again, may cost; 0 if no segment is used, ∞ if sorting is forced.
        search: whether to search the held segment.
        sort: whether to sort a new segment if none is searched within the budget.
    """

    way: Direct
    cost: float
    budget: float = 0.0
    search: bool = False
    sort: bool = False


def choose_way(work: Work, held: SortedSegment | None, not_worth_sorting: float) -> Choice:
    """The way to count that costs least, unless `forced` sets one.

    1. Windows are read as slices or scanned, by the cost of both.
    2. A sorted segment is used instead if this costs at least `LEAST` and `not_worth_sorting`, and
       a search costs at most a third of it. The rest is a budget for entries outside the segment
       and for entries that have to be scored again. The held segment is searched until it has spent
       as much as sorting costs. A new one is sorted if there is none, or if the held one has saved
       all that it has cost, sorting included. If the budget does not suffice, the count is made as
       in 1, and the caller drops the segment and raises `not_worth_sorting`.

    Args:
        work: the size of the count.
        held: the sorted segment that earlier counts made.
        not_worth_sorting: the largest cost for which sorting is known not to pay.
    """
    given, (way, cost) = forced_way(), work.direct
    if given == "sliced" or given == "scanned":
        return Choice(given, cost)
    budget = math.inf
    if given is None:
        budget = cost - SEARCH * (SEARCH_SETUP / work.features + work.values)
        if cost < max(LEAST, not_worth_sorting) or budget < cost * 2 / 3:
            return Choice(way, cost)
    if held is None:
        return Choice(way, cost, budget, sort=True)
    price = SORT * work.replicas * held.length
    paid = given is not None or held.saved >= held.spent + price
    return Choice(way, cost, budget, search=held.spent <= price, sort=paid)
