"""The contract of a split."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.registry import base
from fairbandit.registry.part import Part


class Division(NamedTuple):
    """The division of the past at rounds t; each field is (N,) int64.

    Attributes:
        n_train: rounds 1 … n_train train the estimator.
        rank_start: the rank window begins with round rank_start + 1.
        rank_stop: the rank window ends with round rank_stop.
    """

    n_train: Tensor
    rank_start: Tensor
    rank_stop: Tensor


@base("split")
class Split(Part):
    """Divides the past at every round; a subclass implements `_divide`."""

    def divide(self, t: Tensor) -> Division:
        """Returns the division of the past at rounds t.

        Args:
            t: rounds, (N,) int64, from 1.

        Returns:
            The division. It never reads round t or later, and its fields never decrease in t.

        Raises:
            FairbanditError: the division reads the future.
        """
        division = Division(*(field.to(torch.int64) for field in self._divide(t.clone())))
        n_train, start, stop = division
        wrong = (n_train < 0) | (n_train >= t) | (stop >= t) | (start < 0) | (start > stop)
        if bool(wrong.any()):
            at = int(t[wrong][0])
            raise FairbanditError(
                f"{self} at round {at}: expected 0 ≤ n_train < {at} and "
                f"0 ≤ rank_start ≤ rank_stop < {at}; got "
                f"{[int(field[wrong][0]) for field in division]}"
            )
        return division

    @abstractmethod
    def _divide(self, t: Tensor) -> Division:
        """Returns the division at rounds t, (N,) int64; its fields must never decrease in t."""
