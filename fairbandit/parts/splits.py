"""Splits: which past rounds train the estimator and which feed the ranks."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Part, Problem
from fairbandit.registry import base, register
from fairbandit.streams import GRID

PAPER = "Grazzi et al., Group Meritocratic Fairness in Linear Contextual Bandits, NeurIPS 2022"


class Division(NamedTuple):
    """How rounds t divide the past, each field (N,) int64.

    Attributes:
        n_train: rounds 1 … n_train train the estimator.
        start: the rank window begins with round start+1.
        stop: the rank window ends with round stop.
    """

    n_train: Tensor
    start: Tensor
    stop: Tensor


ROUNDS = 8 * GRID
"""The division of so many rounds is computed at a time, and kept for look-ups."""

MOST = 1e9
"""The largest `refresh`: with a larger one a number of training rounds would exceed int64."""


def check_refresh(factor: float) -> None:
    """Refuses what no split can have as its `refresh`.

    Raises:
        FairbanditError: a factor that is not above 1 and at most `MOST`.
    """
    if not 1 < factor <= MOST:
        raise FairbanditError(
            f"refresh: expected a factor above 1 and at most {MOST:g}, got {factor:g}"
        )


@base("split")
class Split(Part):
    """Divides the past at every round; a subclass writes `_divide`.

    With `refresh` f the reward model of round t is not that after n_train rounds but that after
    n, the largest not above n_train of the numbers 0, 1, ⌈f⌉, ⌈f⌈f⌉⌉, … (each at least one more
    than the one before). The rank window stays as it is.

    A part never changes a tensor that it was given, such as the rounds t, nor one that it has
    returned.

    Args:
        refresh: f, above 1 and at most `MOST`: the reward model changes only when n_train has
            grown by this factor; None is no lazy refresh.

    Raises:
        FairbanditError: a factor out of range.
    """

    refresh: float | None = None
    _numbers_of: int = -1  # which rounds are kept
    _kept: Division
    _numbers: NDArray[np.int64]  # the same, (ROUNDS, 3)
    _grid: tuple[int, ...] = (0, 1)

    def __init__(self, *, refresh: float | None = None) -> None:
        if refresh is not None:
            check_refresh(refresh)
        self.refresh = refresh

    def bind(self, problem: Problem) -> None:
        """Prepares for a problem; look-ups kept for another one are dropped."""
        super().bind(problem)
        self._numbers_of, self._grid = -1, (0, 1)

    def grow(self, problem: Problem) -> None:
        """Continues in a problem with more groups."""
        super().grow(problem)
        self._numbers_of = -1

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that the same split, bound to the same problem, gave."""
        super().load_state(state)
        self._numbers_of = -1

    def divide(self, t: Tensor) -> Division:
        """The division of the past at rounds t.

        Args:
            t: rounds, (N,) int64, from 1.

        Returns:
            The division, which never reads round t or later, and no field of which ever falls.

        Raises:
            FairbanditError: a division that reads the future.
        """
        n_train, start, stop = (field.to(torch.int64) for field in self._divide(t.clone()))
        wrong = (n_train < 0) | (n_train >= t) | (stop >= t) | (start < 0) | (start > stop)
        if bool(wrong.any()):
            at = int(t[wrong][0])
            raise FairbanditError(
                f"split {self.part_name!r} at round {at}: expected 0 ≤ n_train < {at} and "
                f"0 ≤ start ≤ stop < {at}; got "
                f"{[int(field[wrong][0]) for field in (n_train, start, stop)]}"
            )
        if self.refresh is not None:
            self.refreshed(int(n_train.max()))
            grid = torch.tensor(self._grid, device=t.device)
            n_train = grid[torch.searchsorted(grid, n_train, right=True) - 1]
        return Division(n_train, start, stop)

    def block(self, first: int, last: int) -> Division:
        """The division at rounds first … last, as `divide` gives it."""
        number, place = divmod(first - 1, ROUNDS)
        if place + last - first >= ROUNDS:
            return self.divide(torch.arange(first, last + 1, device=self.problem.device))
        self._look_up(number)
        return Division(*(field[place : place + last - first + 1] for field in self._kept))

    def n_train(self, t: int) -> int:
        """How many first rounds train the estimator at round t."""
        return self._read(t, 0)

    def start(self, t: int) -> int:
        """The last round before the rank window of round t."""
        return self._read(t, 1)

    def refreshed(self, t: int) -> int:
        """The first number of training rounds, of those that occur, that includes round t."""
        if self.refresh is None:
            return t
        while self._grid[-1] < t:
            last = self._grid[-1]
            self._grid = (*self._grid, max(last + 1, math.ceil(self.refresh * last)))
        return self._grid[bisect_left(self._grid, t)]

    def _read(self, t: int, field: int) -> int:
        number, place = divmod(t - 1, ROUNDS)
        self._look_up(number)
        return int(self._numbers[place, field])

    def _look_up(self, number: int) -> None:
        if number != self._numbers_of:
            first, device = number * ROUNDS + 1, self.problem.device
            rounds = torch.arange(first, first + ROUNDS, device=device)
            self._numbers_of, self._kept = number, self.divide(rounds)
            self._numbers = torch.stack(self._kept, 1).cpu().numpy()

    @abstractmethod
    def _divide(self, t: Tensor) -> Division:
        """The division at rounds t, elementwise and nondecreasing in t.

        It is asked about `ROUNDS` rounds at a time, so also about some after the last one played.
        """


@register("split", "halves")
class Halves(Split):
    """The first half of the past trains the estimator, the second half feeds the ranks.

    t̃ = ⌊(t − 1)/2⌋; rounds 1 … t̃ train, rounds t̃+1 … t−1 rank (Algorithms 1 and 2, line 4).

    Args:
        refresh: f > 1: the reward model changes only when t̃ has grown by this factor; None is no
            lazy refresh, as in the paper.
    """

    reference = PAPER

    def _divide(self, t: Tensor) -> Division:
        half = (t - 1) // 2
        return Division(n_train=half, start=half, stop=t - 1)


@register("split", "full")
class Full(Split):
    """All past rounds train the estimator and feed the ranks.

    Rounds 1 … t−1 do both, as in the paper's oracle variants and baselines (App. D.2).

    Args:
        refresh: f > 1: the reward model changes only when n_train has grown by this factor; None
            is no lazy refresh, as in the paper.
    """

    reference = PAPER

    def _divide(self, t: Tensor) -> Division:
        return Division(n_train=t - 1, start=torch.zeros_like(t), stop=t - 1)
