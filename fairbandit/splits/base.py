"""The contract of a split, the plan that it gives for a block of rounds, and the paper's splits."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.registry import PAPER, Part, base, register

Ints = NDArray[np.int64]

LARGEST_REFRESH = 1e9
"""The largest `refresh`; a larger factor could make numbers of training rounds exceed int64."""


NO_ROUNDS: Ints = np.zeros(0, np.int64)


class Plan(NamedTuple):
    """The past rounds that the decisions of N consecutive rounds read; each field is (N,) int64.

    Attributes:
        n_train: rounds 1 … n_train train the reward model; 0 without learning.
        rank_start, rank_stop: the rank window is rounds rank_start + 1 … rank_stop.
        rounds: the round number t that each pool is decided with, as if it came next.
        reads: the last round whose reward or pick the decision depends on.
    """

    n_train: Ints
    rank_start: Ints
    rank_stop: Ints
    rounds: Ints = NO_ROUNDS
    reads: Ints = NO_ROUNDS


@base("split")
class Split(Part):
    """Divides the past at every round; a subclass implements `_divide`."""

    def plan(
        self,
        rounds: Ints,
        refresh: float | None = None,
        *,
        learns: bool = True,
        reads_last: bool = False,
    ) -> Plan:
        """The plan of rounds t, (N,) int64, from 1.

        Args:
            rounds: the rounds.
            refresh: a factor above 1; n_train is then rounded down to a number of
                `refresh_numbers`, and the rank window does not change. None trains a model for each
                n_train.
            learns: whether the reward models depend on rewards.
            reads_last: whether a decision also depends on the reward or the pick of the last round.

        Raises:
            FairbanditError: the division reads round t or later.
        """
        n_train, start, stop, *_ = division = self._divide(rounds)
        last = rounds - 1
        room = np.array([n_train, last - n_train, start, stop - start, last - stop])
        if room.min() < 0:
            wrong = room.min(0) < 0
            at = int(rounds[wrong][0])
            raise FairbanditError(
                f"{self} at round {at}: expected 0 ≤ n_train < {at} and "
                f"0 ≤ rank_start ≤ rank_stop < {at}; got "
                f"{[int(field[wrong][0]) for field in division[:3]]}"
            )
        if refresh is not None:
            numbers = refresh_numbers(refresh, int(n_train[-1]))
            n_train = numbers[numbers.searchsorted(n_train, side="right") - 1]
        if not learns:
            n_train = np.zeros_like(rounds)
        return Plan(n_train, start, stop, rounds, last if reads_last else n_train)

    @abstractmethod
    def _divide(self, t: Ints) -> Plan:
        """The first three fields of the plan of rounds t, (N,) int64, which never decrease in t."""


def refresh_numbers(refresh: float, least: int) -> Ints:
    """The numbers 0, 1, ⌈f⌉, ⌈f⌈f⌉⌉, … of training rounds under `refresh` f, up to `least` or more.

    Each is at least one more than the previous number.

    >>> refresh_numbers(1.5, 5)[:6]
    array([0, 1, 2, 3, 5, 8])
    """
    return _refresh_numbers(refresh, max(least, 1).bit_length())


@cache
def _refresh_numbers(refresh: float, bits: int) -> Ints:
    numbers = [0, 1]
    while numbers[-1] < 1 << bits:
        numbers.append(max(numbers[-1] + 1, math.ceil(refresh * numbers[-1])))
    return np.array(numbers)


@register("split", "halves")
class Halves(Split):
    """The first half of the past trains, the second half feeds the ranks.

    n_train = ⌊(t − 1)/2⌋, and the rank window is rounds n_train + 1 … t − 1 (Algorithm 2, line 4).
    So the model is independent of the contexts that feed the ranks.
    """

    reference = PAPER

    def _divide(self, t: Ints) -> Plan:
        n_train = (t - 1) // 2
        return Plan(n_train=n_train, rank_start=n_train, rank_stop=t - 1)


@register("split", "full")
class Full(Split):
    """Rounds 1 … t − 1 train the estimator and feed the ranks."""

    reference = PAPER

    def _divide(self, t: Ints) -> Plan:
        return Plan(n_train=t - 1, rank_start=np.zeros_like(t), rank_stop=t - 1)
