"""Candidates seated by group and model, so that all of one model are compared together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.maths.buffers import Scratch

_begun, _unended = Scratch(), Scratch()

Edge = tuple[slice, Tensor]
"""Some of a tile's entries, and 1 for those that count for a seat, 0 for the others: (B, U, S, ·)
float64, as quick to multiply by as a mask can be; or (1, …) where all replicas are alike."""


class Bounds(NamedTuple):
    """Windows of all rounds at hand: entries after+1 … until of each, for one group.

    Attributes:
        first, latest: the least and the greatest start.
        earliest, last: the least and the greatest stop.
    """

    first: int
    latest: int
    earliest: int
    last: int


@dataclass(frozen=True)
class Seats:
    """Seats for the candidates of one group, (B, U, S), some of them empty.

    Attributes:
        group: the group.
        start, stop: the window of each seat's round, as entries of the group: (B, U, S) float64,
            or (1, U, S) where all replicas are alike.
        bounds: of all windows.
    """

    group: int
    start: Tensor
    stop: Tensor
    bounds: Bounds

    def edges(self, low: int, high: int, inside: bool) -> list[Edge]:
        """Where windows begin or end among the entries low+1 … high, with masks of what counts.

        Args:
            low, high: the entries.
            inside: False if what counts is outside the windows; what is in no window always does.

        Returns:
            At most two edges, until the next call.
        """
        if not inside:
            begins, ends = max(low, self.bounds.first), min(high, self.bounds.last)
            if begins >= ends:
                return []
            outside = self._window(begins, ends).neg_().add_(1)
            return [(slice(begins - low, ends - low), outside)]
        begins, ends = min(high, self.bounds.latest), max(low, self.bounds.earliest)
        if low < begins and ends < high and ends < begins:
            return [(slice(0, high - low), self._window(low, high))]
        found = []
        if low < begins:
            found.append((slice(0, begins - low), self._begun(low, begins)))
        if ends < high:
            found.append((slice(ends - low, high - low), self._unended(ends, high)))
        return found

    def _window(self, low: int, high: int) -> Tensor:
        return self._begun(low, high).mul_(self._unended(low, high))

    def _begun(self, low: int, high: int) -> Tensor:
        """1 for those of the entries low+1 … high that are past each seat's start, 0 for others."""
        entry, shape = self._entries(low, high)
        return torch.ge(entry, self.start[..., None], out=_begun.empty(shape, entry))

    def _unended(self, low: int, high: int) -> Tensor:
        """1 for those that are not past each seat's stop."""
        entry, shape = self._entries(low, high)
        return torch.lt(entry, self.stop[..., None], out=_unended.empty(shape, entry))

    def _entries(self, low: int, high: int) -> tuple[Tensor, tuple[int, ...]]:
        entry = torch.arange(low, high, dtype=torch.float64, device=self.start.device)
        return entry, (*self.start.shape, high - low)


class Seating:
    """Every candidate's own seat: one of its group and model.

    Replicas that are alike in groups and windows are seated as one, B = 1.

    Args:
        groups: (B, N, K) int64, −1 for none.
        of_round: which model each round uses, (N,) int64, nondecreasing.
        models: U.
        start, stop: each round's window as entries of every group, (B, N, G).
        bounds: of these windows, one a group.

    Attributes:
        seats: of every group that has candidates.
    """

    def __init__(
        self,
        groups: Tensor,
        of_round: Tensor,
        models: int,
        start: Tensor,
        stop: Tensor,
        bounds: Sequence[Bounds],
    ) -> None:
        (b, n, k), g = groups.shape, start.shape[2]
        flat, own = groups.reshape(b, n * k), groups.clamp(min=0)
        of_candidate = of_round.repeat_interleave(k)
        order = (flat[..., None] == torch.arange(g, device=flat.device)).cumsum(1)
        # less the members seated before each model's first round
        first = torch.searchsorted(of_candidate, torch.arange(models, device=flat.device))
        earlier = order[:, (first - 1).clamp(min=0)] * (first > 0)[:, None]
        member = own.view(b, n * k)
        number = order.gather(2, member[..., None])[..., 0] - 1
        number -= earlier.view(b, -1).gather(1, of_candidate * g + member)
        most = number.new_full((g + 1,), -1)
        most.scatter_reduce_(0, flat.reshape(-1) + 1, number.reshape(-1), "amax")
        # one group's seats lie after another's
        self._widths = [last + 1 for last in most[1:].tolist()]
        ends = [models * sum(self._widths[: group + 1]) for group in range(g)]
        self._count, self._models, self._shape = ends[-1], models, groups.shape
        layout = torch.tensor([[0, *ends[:-1]], self._widths], device=flat.device)
        base, width = layout[:, member]
        self._seat = (base + of_candidate * width + number).where(flat >= 0, self._count)
        starts, stops = (
            self._seated(totals.gather(2, own).to(torch.float64), 0) for totals in (start, stop)
        )
        taken = [group for group, width in enumerate(self._widths) if width]
        self.seats = [
            Seats(group, low, high, bounds[group])
            for group, low, high in zip(taken, starts, stops, strict=True)
        ]

    def place(self, values: Tensor) -> list[Tensor]:
        """Values of the candidates, (B, N, K), at their seats, NaN at empty ones.

        Returns:
            (B, U, S) for each of the `seats`.
        """
        return self._seated(values, torch.nan)

    def collect(self, seated: Sequence[Tensor]) -> Tensor:
        """The candidates' values, (B, N, K), of those at the seats; 0 for those without one.

        Args:
            seated: (B, U, S) float64 for each of the `seats`.
        """
        b = len(seated[0]) if seated else self._shape[0]
        nothing = torch.zeros(b, 1, dtype=torch.float64, device=self._seat.device)
        flat = torch.cat([*(part.reshape(b, -1) for part in seated), nothing], 1)
        return flat.gather(1, self._seat.expand(b, -1)).view(b, *self._shape[1:])

    def _seated(self, values: Tensor, empty: float) -> list[Tensor]:
        b = len(values)
        flat = values.new_full((b, self._count + 1), empty)
        flat.scatter_(1, self._seat.expand(b, -1), values.reshape(b, -1))
        sizes = [self._models * width for width in self._widths if width]
        parts = flat.split([*sizes, 1], 1)[:-1]
        return [part.view(b, self._models, -1) for part in parts]
