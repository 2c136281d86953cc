"""The contract of a split, and the plan that it gives for a block of rounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.registry import base
from fairbandit.registry.part import Part

Ints = NDArray[np.int64]

LARGEST_REFRESH = 1e9
"""The largest `refresh`; a larger factor could make numbers of training rounds exceed int64."""


class Division(NamedTuple):
    """The division of the past at rounds t; each field is (N,) int64.

    Attributes:
        n_train: rounds 1 … n_train train the estimator.
        rank_start: the rank window begins with round rank_start + 1.
        rank_stop: the rank window ends with round rank_stop.
    """

    n_train: Ints
    rank_start: Ints
    rank_stop: Ints


@base("split")
class Split(Part):
    """Divides the past at every round; a subclass implements `_divide`."""

    def divide(self, t: Ints) -> Division:
        """The division of the past at rounds t, (N,) int64, from 1.

        Raises:
            FairbanditError: the division reads round t or later.
        """
        division = self._divide(t)
        n_train, start, stop = division
        wrong = (n_train < 0) | (n_train >= t) | (stop >= t) | (start < 0) | (start > stop)
        if wrong.any():
            at = int(t[wrong][0])
            raise FairbanditError(
                f"{self} at round {at}: expected 0 ≤ n_train < {at} and "
                f"0 ≤ rank_start ≤ rank_stop < {at}; got "
                f"{[int(field[wrong][0]) for field in division]}"
            )
        return division

    @abstractmethod
    def _divide(self, t: Ints) -> Division:
        """The division at rounds t, (N,) int64; its fields must never decrease in t."""


class Plan(NamedTuple):
    """The past rounds that the decisions of N consecutive rounds read.

    Every field is (N,) int64.

    Attributes:
        rounds: the round number t that each pool is decided with, as if it came next.
        n_train: the number of first rounds that train the reward model; 0 without learning.
        rank_start, rank_stop: the rank window is rounds rank_start + 1 … rank_stop.
        reads: the last round whose reward or pick the decision depends on.
    """

    rounds: Ints
    n_train: Ints
    rank_start: Ints
    rank_stop: Ints
    reads: Ints


class Schedule:
    """The divisions of a split, with optional rare refreshes of the reward model.

    With `refresh` f, n_train is rounded down to one of the numbers 0, 1, ⌈f⌉, ⌈f⌈f⌉⌉, …, each at
    least one more than the previous number. The rank window does not change.

    Args:
        split: the split, which divides the past at each round.
        refresh: f, above 1 and at most `LARGEST_REFRESH`; None trains a model for each n_train.
        learns: whether the reward models depend on rewards.
        reads_last: whether a decision also depends on the reward or the pick of the round before.

    Raises:
        FairbanditError: the factor is out of range.
    """

    def __init__(
        self,
        split: Split,
        refresh: float | None = None,
        *,
        learns: bool = True,
        reads_last: bool = False,
    ) -> None:
        if refresh is not None and not 1 < refresh <= LARGEST_REFRESH:
            raise FairbanditError(
                f"refresh: expected a factor above 1 and at most {LARGEST_REFRESH:g}, "
                f"got {refresh!s:.50}"
            )
        self._split, self._refresh = split, refresh
        self._learns, self._reads_last = learns, reads_last
        self._trained: tuple[int, ...] = (0, 1)

    def plan(self, first: int, n: int, frozen: bool = False) -> Plan:
        """The plan of n rounds; if frozen, all rounds read the past of the first round."""
        rounds = np.full(n, first) if frozen else np.arange(first, first + n)
        n_train, start, stop = self._split.divide(rounds)
        if self._refresh is not None:
            self.refreshed(int(n_train[-1]))
            trained = np.array(self._trained)
            n_train = trained[trained.searchsorted(n_train, side="right") - 1]
        if not self._learns:
            n_train = np.zeros_like(rounds)
        reads = rounds - 1 if self._reads_last else n_train
        return Plan(rounds, n_train, start, stop, reads)

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
