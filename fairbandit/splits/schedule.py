"""The division of the past at every round, with optional rare refreshes of the model."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.splits.base import Split
from fairbandit.streams import CHUNK_ROUNDS

PIECE = 8 * CHUNK_ROUNDS
"""The number of rounds that are divided at a time, and cached for look-ups of single rounds."""

CPU = torch.device("cpu")
"""The device on which divisions are computed."""

MOST = 1e9
"""The largest `refresh`; a larger factor could make numbers of training rounds exceed int64."""


class Plan(NamedTuple):
    """The past rounds that the decisions of N consecutive rounds read.

    Attributes:
        first: the first of the rounds, from 1.
        times: the round as which each pool is decided, (N,): its own round, or the first round if
            each pool is decided as if it came next.
        n_train: the number of first rounds that train the reward model of each, (N,).
        windows: the rank window of each is rounds start + 1 … stop, (2, N).
    """

    first: int
    times: NDArray[np.int64]
    n_train: NDArray[np.int64]
    windows: NDArray[np.int64]


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
        self._kept: tuple[int, NDArray[np.int64]] | None = None

    def plan(self, first: int, n: int, frozen: bool = False) -> Plan:
        """Returns the plan of n rounds; if frozen, all rounds read the past of the first round."""
        number, place = divmod(first - 1, PIECE)
        if frozen:
            division = self._piece(number)[:, place : place + 1].repeat(n, 1)
            return Plan(first, np.full(n, first), division[0], division[1:])
        if place + n > PIECE:
            division = self._divide(first, first + n - 1)
        else:
            division = self._piece(number)[:, place : place + n]
        return Plan(first, np.arange(first, first + n), division[0], division[1:])

    def n_train(self, t: int) -> int:
        """Returns the number of first rounds that train the estimator at round t."""
        return self._read(t, 0)

    def rank_start(self, t: int) -> int:
        """Returns the last round before the rank window of round t."""
        return self._read(t, 1)

    def refreshed(self, t: int) -> int:
        """Returns the least number of training rounds of a model that includes round t."""
        if self._refresh is None:
            return t
        if (trained := self._trained)[-1] < t:
            numbers = list(trained)
            while numbers[-1] < t:
                numbers.append(max(numbers[-1] + 1, math.ceil(self._refresh * numbers[-1])))
            trained = self._trained = tuple(numbers)
        return trained[bisect_left(trained, t)]

    def _read(self, t: int, field: int) -> int:
        number, place = divmod(t - 1, PIECE)
        return int(self._piece(number)[field, place])

    def _piece(self, number: int) -> NDArray[np.int64]:
        kept = self._kept
        if kept is None or kept[0] != number:
            first = number * PIECE + 1
            kept = self._kept = number, self._divide(first, first + PIECE - 1)
        return kept[1]

    def _divide(self, first: int, last: int) -> NDArray[np.int64]:
        division = self._split.divide(torch.arange(first, last + 1, device=CPU))
        if self._refresh is not None:
            self.refreshed(int(division.n_train.max()))
            trained = torch.tensor(self._trained, device=CPU)
            at = torch.searchsorted(trained, division.n_train, right=True) - 1
            division = division._replace(n_train=trained[at])
        return torch.stack(division).numpy()
