"""Running sums, means, maxima and last values: a metric's value over rounds 1 … t, for every t."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

Reduce = Literal["sum", "mean", "last", "max"]
"""The reduction of a metric's values in rounds 1 … t to its value after round t."""

REDUCTIONS: tuple[Reduce, ...] = get_args(Reduce)
"""The names of the reductions."""


class RunningReduction:
    """Reduces the values of B replicas over rounds 1 … t, for every t.

    Args:
        reduce: one of `REDUCTIONS`.
        replicas: B.

    >>> running = RunningReduction("mean", replicas=1)
    >>> running.add(torch.tensor([[1.0, 2.0]])), running.add(torch.tensor([[6.0]]))
    (tensor([[1.0000, 1.5000]], dtype=torch.float64), tensor([[3.]], dtype=torch.float64))
    """

    def __init__(self, reduce: Reduce, replicas: int) -> None:
        self._reduce = reduce
        self._rounds = 0
        start = -torch.inf if reduce == "max" else 0.0
        self._carried = torch.full((replicas,), start, dtype=torch.float64)

    def add(self, values: Tensor) -> Tensor:
        """Adds the next N rounds, (B, N); returns the value after each round, (B, N) float64."""
        values, carried = values.to(self._carried), self._carried[:, None]
        rounds = torch.arange(1, values.shape[1] + 1) + self._rounds
        if self._reduce in ("sum", "mean"):
            running = values.cumsum(1) + carried
        elif self._reduce == "max":
            running = values.cummax(1).values.maximum(carried)
        else:
            running = values
        self._carried = running[:, -1].clone()
        self._rounds += values.shape[1]
        return running / rounds if self._reduce == "mean" else running
