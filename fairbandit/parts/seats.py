"""Candidates seated by group and model, so that all of one model are compared together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Bounds:
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
    """The candidates of one group, seated by model: (B, U, S), some seats empty.

    Attributes:
        seat: each candidate's seat, flat in U·S, or U·S if of another group: (B, N·K).
        shape: (U, S).
        start, stop: the window of each seat's round, as entries of the group: (B, U, S) float64.
        bounds: of all windows.
    """

    seat: Tensor
    shape: tuple[int, int]
    start: Tensor
    stop: Tensor
    bounds: Bounds

    def window(self, low: int, high: int, inside: bool) -> Tensor:
        """1 for those of the entries low+1 … high that each seat's window holds, 0 for the others.

        Args:
            low, high: the entries.
            inside: False swaps 0 and 1.

        Returns:
            (B, U, S, high − low) float64, as quick to multiply by as a mask can be.
        """
        entry = torch.arange(low, high, dtype=torch.float64, device=self.start.device)
        mask = entry.new_empty(*self.start.shape, high - low)
        if high <= self.bounds.earliest:
            torch.ge(entry, self.start[..., None], out=mask)
        else:
            torch.lt(entry, self.stop[..., None], out=mask)
            if low < self.bounds.latest:
                mask.mul_(entry >= self.start[..., None])
        return mask if inside else mask.neg_().add_(1)

    def place(self, values: Tensor) -> Tensor:
        """Values of the candidates, (B, N, K), at their seats: (B, U, S), NaN at empty ones."""
        return _seated(values, self.seat, self.shape, torch.nan)

    def collect(self, seated: Tensor, into: Tensor) -> None:
        """Adds values at the seats, (B, U, S), to those of the candidates, (B, N, K)."""
        b = seated.shape[0]
        padded = torch.cat([seated.reshape(b, -1), seated.new_zeros(b, 1)], 1)
        into += padded.gather(1, self.seat).view(into.shape)


def seatings(
    groups: Tensor, of_round: Tensor, models: int, start: Tensor, stop: Tensor, bounds: list[Bounds]
) -> Iterator[tuple[int, Seats]]:
    """Seats the candidates of every group that has any.

    Args:
        groups: (B, N, K) int64, −1 for none.
        of_round: which model each round uses, (N,) int64, nondecreasing.
        models: U.
        start, stop: each round's window as entries of every group, (B, N, G).
        bounds: of these windows, one a group.

    Yields:
        The group and its seats.
    """
    b, n, k = groups.shape
    g = start.shape[2]
    flat = groups.reshape(b, n * k)
    of_candidate = of_round.repeat_interleave(k)
    every = torch.arange(models, device=flat.device)
    first = torch.searchsorted(of_candidate, every)  # each model's first candidate
    order = (flat[..., None] == torch.arange(g, device=flat.device)).cumsum(1)
    # less the members seated before each model's first round
    earlier = torch.cat([order.new_zeros(b, 1, g), order], 1)[:, first]
    seat = order - 1 - earlier[:, of_candidate]
    member = flat.clamp(min=0)[..., None]
    own = seat.gather(2, member)[..., 0].where(flat >= 0, -1)
    most = own.new_full((g + 1,), -1).scatter_reduce(
        0, flat.reshape(-1) + 1, own.reshape(-1), "amax"
    )
    windows = start.to(torch.float64), stop.to(torch.float64)
    for group, last in enumerate(most[1:].tolist()):
        if last < 0:
            continue
        shape = (models, last + 1)
        place = (of_candidate * shape[1] + own).where(flat == group, shape[0] * shape[1])
        low, high = (
            _seated(totals[:, :, group, None].expand(b, n, k), place, shape, 0)
            for totals in windows
        )
        yield group, Seats(place, shape, low, high, bounds[group])


def _seated(values: Tensor, seat: Tensor, shape: tuple[int, int], empty: float) -> Tensor:
    b, (u, s) = values.shape[0], shape
    seated = values.new_full((b, u * s + 1), empty)
    seated.scatter_(1, seat, values.reshape(b, -1))
    return seated[:, :-1].view(b, u, s)
