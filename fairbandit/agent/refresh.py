"""Moving the reward model on only when there is much more to learn from, in bounded memory."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from fairbandit.maths import checks
from fairbandit.maths.roots import root_of_rows
from fairbandit.parts import History, Outcomes, Problem, Spans, Split
from fairbandit.parts.base import Part, State

MOST = 1e9
"""The largest factor: beyond it the grid leaves the numbers that rounds can have."""


class Refreshed(Split):
    """Another split, whose estimator is taught by a geometric grid of numbers of rounds.

    taught′ = max{n in grid: n ≤ taught}, the grid being 0, 1 and then n ← max(n + 1, ⌈f·n⌉). What
    the ranks read stays as it is.

    Args:
        split: the other one.
        factor: f > 1.
    """

    part_kind, part_name = "split", "refreshed"

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

    def state(self) -> State:
        """The other split's."""
        return self._split.state()

    def inside(self) -> list[Part]:
        """The other split too."""
        return [self, *self._split.inside()]

    def snapshot(self) -> State:
        """The other split's."""
        return self._split.snapshot()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The other split's."""
        self._split.load_state(state)
        self._stretch = -1

    def node(self, t: int) -> int:
        """The first number of the grid that is not below t: what round t teaches first."""
        while self._grid[-1] < t:
            last = self._grid[-1]
            self._grid = [*self._grid, max(last + 1, math.ceil(self._factor * last))]
        return self._grid[bisect_left(self._grid, t)]

    def _spans(self, t: Tensor) -> Spans:
        spans = self._split.spans(t)
        self.node(int(spans.taught.max()))
        grid = torch.tensor(self._grid, device=t.device)
        at = torch.searchsorted(grid, spans.taught, right=True) - 1
        return spans._replace(taught=grid[at])


class Summed(History):
    """A history that keeps outcomes as sums, between one number of the grid and the next.

    Least squares needs no more of n rows [x r] than Σ [x r]ᵀ[x r], and that is RᵀR for the
    triangular d + 1 rows R of their QR decomposition. The last of these, whose x is 0, can go.

    Args:
        problem: sizes, device and dtype; one replica.
        needs: as for `History`, but no rewards.
        split: knows the grid.
    """

    def __init__(
        self,
        problem: Problem,
        needs: Collection[str],
        split: Refreshed,
        memory: int | None = None,
    ) -> None:
        super().__init__(problem, needs, memory)
        self._split, self._played = split, 0
        self._features = problem.features
        # the rows of each stretch, (1, m, d + 1), by the number of the grid that ends it
        self._stretches: dict[int, Tensor] = {}

    @property
    def played(self) -> int:
        """The last round that was decided."""
        return self._played

    def outcomes(self, after: int, until: int) -> Outcomes:
        """Rows with the same sums as those of rounds after+1 … until, both of the grid."""
        inside = [rows for end, rows in self._stretches.items() if after < end <= until]
        rows = torch.cat([self._unknown.contexts.new_zeros(1, 0, self._features + 1), *inside], 1)
        groups = torch.full(rows.shape[:2], -1, device=rows.device)
        return Outcomes(rows[..., :-1], groups, rows[..., -1])

    def add_unknown(self) -> None:
        """Records that the next round was decided, and that its reward is not known yet."""
        self._played += 1

    def learn(self, t: int, outcome: Outcomes) -> None:
        """Records the outcome of a round that was unknown."""
        self.earliest = min(self.earliest, t)
        if t > self.taken:
            self._sum(self._split.node(t), outcome)

    def unlearn(self, t: int) -> None:
        """Has nothing to take back: `learn` writes over nothing."""

    def forget(self, outcomes: int, contexts: int) -> None:
        """Rounds up to these are not asked for again."""
        self._stretches = {end: rows for end, rows in self._stretches.items() if end > outcomes}
        super().forget(0, contexts)

    def state(self) -> dict[str, Any]:
        """All that is kept, as plain tensors and numbers."""
        stretches = {str(end): rows for end, rows in self._stretches.items()}
        return {**super().state(), "played": self._played, "stretches": stretches}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state` gave.

        Raises:
            FairbanditError: a state of another problem.
        """
        self._played = checks.count("played", state["played"])
        none = self._unknown.contexts.new_empty(1, 0, self._features + 1)
        self._stretches = {
            checks.count("stretches", int(end)): checks.like("stretches", rows, none, free=1)
            for end, rows in state["stretches"].items()
        }
        super().load_state(state)

    def _add(self, outcomes: Outcomes) -> None:
        low, last = self._played, self._played + outcomes.rewards.shape[1]
        while low < last:
            end = self._split.node(low + 1)
            span = slice(low - self._played, min(end, last) - self._played)
            self._sum(end, Outcomes(*(part[:, span] for part in outcomes)))
            low = end
        self._played = last

    def _sum(self, end: int, outcomes: Outcomes) -> None:
        kept = [self._stretches[end]] if end in self._stretches else []
        rows = torch.cat([outcomes.contexts, outcomes.rewards[..., None]], 2)
        rows = torch.cat([*kept, rows], 1)
        if rows.shape[1] > 2 * self._features + 1:
            rows = root_of_rows(rows).rows
        self._stretches = {**self._stretches, end: rows}
