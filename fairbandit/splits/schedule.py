"""The division of the past at every round, with optional rare refreshes of the model."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.splits.base import Ints, Split

MOST = 1e9
"""The largest `refresh`; a larger factor could make numbers of training rounds exceed int64."""


class Plan(NamedTuple):
    """The past rounds that the decisions of N consecutive rounds read.

    Attributes:
        first: the first of the rounds, from 1.
        times: the round number that each pool is decided with, (N,).
        n_train: the number of first rounds that train the reward model of each, (N,).
        windows: the rank window of each is rounds start + 1 … stop, (2, N).
    """

    first: int
    times: Ints
    n_train: Ints
    windows: Ints


class Schedule:
    """The divisions of a split, with optional rare refreshes of the reward model.

    With `refresh` f, n_train is rounded down to one of the numbers 0, 1, ⌈f⌉, ⌈f⌈f⌉⌉, …, each at
    least one more than the previous number. The rank window does not change.

    Args:
        split: the split, which divides the past at each round.
        refresh: f, above 1 and at most `MOST`; None trains a model for each n_train.

    Raises:
        FairbanditError: the factor is out of range.
    """

    def __init__(self, split: Split, refresh: float | None = None) -> None:
        if refresh is not None and not 1 < refresh <= MOST:
            raise FairbanditError(
                f"refresh: expected a factor above 1 and at most {MOST:g}, got {refresh!s:.50}"
            )
        self._split, self._refresh = split, refresh
        self._trained: tuple[int, ...] = (0, 1)

    def plan(self, first: int, n: int, frozen: bool = False) -> Plan:
        """The plan of n rounds; if frozen, all rounds read the past of the first round."""
        times = np.full(n, first) if frozen else np.arange(first, first + n)
        n_train, start, stop = self._split.divide(times)
        if self._refresh is not None:
            self.refreshed(int(n_train[-1]))
            trained = np.array(self._trained)
            n_train = trained[trained.searchsorted(n_train, side="right") - 1]
        return Plan(first, times, n_train, np.stack([start, stop]))

    def refreshed(self, t: int) -> int:
        """The least number of training rounds of a model that includes round t."""
        if self._refresh is None:
            return t
        if (trained := self._trained)[-1] < t:
            numbers = list(trained)
            while numbers[-1] < t:
                numbers.append(max(numbers[-1] + 1, math.ceil(self._refresh * numbers[-1])))
            trained = self._trained = tuple(numbers)
        return trained[bisect_left(trained, t)]
