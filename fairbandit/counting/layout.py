"""The padded layout: values by group and model, so that all of one model are compared together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.maths.buffers import Scratch

_started, _unended = Scratch(), Scratch()


class Limits(NamedTuple):
    """The limits of the windows of all rounds asked about, as entries of one group.

    Attributes:
        least_start, greatest_start: of the windows' first entries.
        least_stop, greatest_stop: of the entries after the windows' last ones.
    """

    least_start: int
    greatest_start: int
    least_stop: int
    greatest_stop: int


@dataclass(frozen=True)
class Slots:
    """The slots for one group's values, (B, U, S); some are empty.

    Attributes:
        group: the group.
        start, stop: the window of each slot's round, entries start … stop − 1: (B, U, S) float64,
            or (1, U, S) if all replicas are alike.
        limits: of all windows.
    """

    group: int
    start: Tensor
    stop: Tensor
    limits: Limits

    def window(self, low: int, high: int) -> Tensor:
        """Which of the entries low … high − 1 lie in each slot's window: 1 or 0, float64.

        Multiplying floats by floats is faster than using booleans.

        Returns:
            (B, U, S, high − low), or (1, U, S, high − low) if all replicas are alike; valid until
            the next call.
        """
        entry = torch.arange(low, high, dtype=torch.float64, device=self.start.device)
        shape = *self.start.shape, high - low
        started = torch.ge(entry, self.start[..., None], out=_started.empty(shape, entry))
        unended = torch.lt(entry, self.stop[..., None], out=_unended.empty(shape, entry))
        return started.mul_(unended)


class Layout:
    """Gives every value of a group and a model one of the slots of that group and model.

    If all replicas have the same groups and windows, the layout is that of one replica, B = 1.

    Args:
        groups: (B, N, M) int64, −1 for none.
        of_round: which model each round uses, (N,) int64, nondecreasing.
        models: U.
        start, stop: the window of each round in every group, entries start … stop − 1: (B, N, G).
        limits: of these windows, one for each group.

    Attributes:
        slots: of every group that has values.
    """

    def __init__(
        self,
        groups: Tensor,
        of_round: Tensor,
        models: int,
        start: Tensor,
        stop: Tensor,
        limits: Sequence[Limits],
    ) -> None:
        (b, n, m), g = groups.shape, start.shape[2]
        flat, own = groups.reshape(b, n * m), groups.clamp(min=0)
        of_value = of_round.repeat_interleave(m)
        number = (flat[..., None] == torch.arange(g, device=flat.device)).cumsum(1)
        # minus the values of the same group in rounds before the model's first one
        first = torch.searchsorted(of_value, torch.arange(models, device=flat.device))
        earlier = number[:, (first - 1).clamp(min=0)] * (first > 0)[:, None]
        member = own.view(b, n * m)
        slot = number.gather(2, member[..., None])[..., 0] - 1
        slot -= earlier.view(b, -1).gather(1, of_value * g + member)
        most = slot.new_full((g + 1,), -1)
        most.scatter_reduce_(0, flat.reshape(-1) + 1, slot.reshape(-1), "amax")
        # the slots of one group lie after those of another
        self._widths = [last + 1 for last in most[1:].tolist()]
        ends = [models * sum(self._widths[: group + 1]) for group in range(g)]
        self._count, self._models, self._shape = ends[-1], models, groups.shape
        sizes = torch.tensor([[0, *ends[:-1]], self._widths], device=flat.device)
        base, width = sizes[:, member]
        self._slot = (base + of_value * width + slot).where(flat >= 0, self._count)
        starts, stops = (
            self._placed(entry.gather(2, own).to(torch.float64), 0) for entry in (start, stop)
        )
        taken = [group for group, width in enumerate(self._widths) if width]
        self.slots = [
            Slots(group, low, high, limits[group])
            for group, low, high in zip(taken, starts, stops, strict=True)
        ]

    def place(self, values: Tensor) -> list[Tensor]:
        """Puts values, (B, N, M), into their slots, and NaN into empty ones.

        Returns:
            (B, U, S) for each of the `slots`.
        """
        return self._placed(values, torch.nan)

    def collect(self, placed: Sequence[Tensor]) -> Tensor:
        """Takes values, (B, N, M), out of their slots; 0 for those of no group.

        Args:
            placed: (B, U, S) float64 for each of the `slots`.
        """
        b = len(placed[0]) if placed else self._shape[0]
        nothing = torch.zeros(b, 1, dtype=torch.float64, device=self._slot.device)
        flat = torch.cat([*(part.reshape(b, -1) for part in placed), nothing], 1)
        return flat.gather(1, self._slot.expand(b, -1)).view(b, *self._shape[1:])

    def _placed(self, values: Tensor, empty: float) -> list[Tensor]:
        b = len(values)
        flat = values.new_full((b, self._count + 1), empty)
        flat.scatter_(1, self._slot.expand(b, -1), values.reshape(b, -1))
        sizes = [self._models * width for width in self._widths if width]
        parts = flat.split([*sizes, 1], 1)[:-1]
        return [part.view(b, self._models, -1) for part in parts]
