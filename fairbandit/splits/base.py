"""The contract of a split, and the plan of a block of rounds."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.registry import base
from fairbandit.registry.part import Part

Ints = NDArray[np.int64]


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
        division = Division(*(np.asarray(field, np.int64) for field in self._divide(t)))
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
