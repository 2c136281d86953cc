"""A split under which the estimator moves on only when there is much more to learn from."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fairbandit.parts import Problem, Spans, Split


class Refreshed(Split):
    """Another split, whose estimator is taught by a geometric grid of numbers of rounds.

    taught′ = max{n in grid: n ≤ taught}, the grid being 0, 1 and then n ← max(n + 1, ⌈f·n⌉). What
    the ranks read stays as it is.

    Args:
        split: the other one.
        factor: f > 1.
    """

    part_kind = "split"

    def __init__(self, split: Split, factor: float) -> None:
        self._split, self._factor = split, factor
        self._grid = [0, 1]

    def bind(self, problem: Problem) -> None:
        """Prepares the other split too."""
        super().bind(problem)
        self._split.bind(problem)

    def grow(self, problem: Problem) -> None:
        """Tells the other split too."""
        super().grow(problem)
        self._split.grow(problem)

    def _spans(self, t: Tensor) -> Spans:
        spans = self._split.spans(t)
        while self._grid[-1] <= int(spans.taught.max()):
            last = self._grid[-1]
            self._grid.append(max(last + 1, math.ceil(self._factor * last)))
        grid = torch.tensor(self._grid, device=t.device)
        at = torch.searchsorted(grid, spans.taught, right=True) - 1
        return spans._replace(taught=grid[at])
