"""Sums over the past members of each candidate's group, re-scored under its round's model.

This is where ranks spend their time. A group's past contexts are one list in order of round, a
round's window a stretch of it. Tiles of the list are scored once by every distinct model of the
rounds at hand, as a matrix product, and compared with all the candidates of that model together.
Only tiles at a window's edge need a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fairbandit.parts.history import History
from fairbandit.parts.model import RewardModel
from fairbandit.parts.splits import Spans

TILE = 1 << 18
"""About how many scores a tile holds, so that they stay in cache."""

LANES = 8
"""Bytes in a word: comparisons are counted in bytes, eight at a time."""

LONGEST = 255 * LANES
"""The most entries of a tile, lest a byte overflow."""


@dataclass(frozen=True)
class _Seats:
    """The candidates of one group, seated by model: (B, U, S), some seats empty.

    Attributes:
        seat: each candidate's seat, flat in U·S, or U·S if of another group: (B, N·K).
        shape: (U, S).
        start, stop: the window of each seat's round, as entries of the group: (B, U, S).
        bounds: the least and greatest start and stop over the taken seats.
    """

    seat: Tensor
    shape: tuple[int, int]
    start: Tensor
    stop: Tensor
    bounds: tuple[int, int, int, int]

    def place(self, values: Tensor) -> Tensor:
        """Values of the candidates, (B, N, K), at their seats: (B, U, S), NaN at empty ones."""
        return _seated(values, self.seat, self.shape, torch.nan)

    def collect(self, seated: Tensor, into: Tensor) -> None:
        """Adds values at the seats, (B, U, S), to those of the candidates, (B, N, K)."""
        b = seated.shape[0]
        padded = torch.cat([seated.reshape(b, -1), seated.new_zeros(b, 1)], 1)
        into += padded.gather(1, self.seat).view(into.shape)


class Past:
    """For each candidate, the past contexts of its group in its round's window.

    Args:
        history: past pools by group, up to the last of the rounds asked about.
        spans: the rounds' windows, fields (N,).
        groups: the candidates' groups, (B, N, K).
        model: the U reward models of the rounds.
        of_round: which model each round uses, (N,) int64, nondecreasing.
    """

    def __init__(
        self,
        history: History,
        spans: Spans,
        groups: Tensor,
        model: RewardModel,
        of_round: Tensor,
    ) -> None:
        self._history, self._groups = history, groups
        self._model, self._of_round = model, of_round
        self._start = history.total(spans.after)
        self._stop = history.total(spans.until)

    @cached_property
    def count(self) -> Tensor:
        """How many past contexts of its group each candidate's window holds: (B, N, K) int64."""
        inside = (self._stop - self._start).gather(2, self._groups.clamp(min=0))
        return inside.masked_fill(self._groups < 0, 0)

    def at_most(self, values: Tensor) -> Tensor:
        """How many of those contexts score no higher than a value of the candidate.

        Args:
            values: (B, N, K), such as the candidates' ceilings.

        Returns:
            Counts, (B, N, K) float64.
        """
        return self.sum(torch.le, values)

    def sum(self, term: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """Sums a function of past scores over each candidate's window.

        Args:
            term: an elementwise function of the past scores and of the `values`, which broadcast
                against each other; real or boolean.
            values: what the function needs of the candidate, each (B, N, K).

        Returns:
            The sums, (B, N, K) float64.
        """
        total = torch.zeros(self._groups.shape, dtype=torch.float64, device=self._groups.device)
        for group, seats in self._seatings():
            seated = [seats.place(value)[..., None] for value in values]
            sums = torch.zeros(seats.start.shape, dtype=total.dtype, device=total.device)
            for low, high, inside in self._tiles(seats):
                entries = self._history.entries(group, low, high)
                scores = self._model.score(entries[:, None])
                terms = term(scores[:, :, None], *seated)
                if not inside:
                    index = torch.arange(low, high, device=total.device)
                    window = (index >= seats.start[..., None]) & (index < seats.stop[..., None])
                    terms = terms & window if terms.dtype == torch.bool else terms.where(window, 0)
                sums += _add_up(terms)
            seats.collect(sums, into=total)
        return total

    def _seatings(self) -> Iterator[tuple[int, _Seats]]:
        for group in range(self._start.shape[2]):
            seats = self._seat(group)
            if seats is not None:
                yield group, seats

    def _seat(self, group: int) -> _Seats | None:
        b, n, k = self._groups.shape
        member = (self._groups == group).view(b, n * k)
        of_candidate = self._of_round.repeat_interleave(k)
        order = member.cumsum(1)
        # members seated before each model's first round
        first = torch.searchsorted(
            of_candidate, torch.arange(len(self._model), device=member.device)
        )
        before = torch.cat([order.new_zeros(b, 1), order], 1)[:, first]
        seat = order - 1 - before[:, of_candidate]
        if not bool(member.any()):
            return None
        u, s = len(self._model), int(seat[member].max()) + 1
        seat = torch.where(member, of_candidate * s + seat, u * s)
        start, stop = (
            totals[:, :, group, None].expand(b, n, k) for totals in (self._start, self._stop)
        )
        low, high = (totals.reshape(b, n * k)[member] for totals in (start, stop))
        bounds = (int(low.min()), int(low.max()), int(high.min()), int(high.max()))
        return _Seats(
            seat, (u, s), _seated(start, seat, (u, s), 0), _seated(stop, seat, (u, s), 0), bounds
        )

    def _tiles(self, seats: _Seats) -> Iterator[tuple[int, int, bool]]:
        """Stretches of a group's entries, and whether all of one lies in every window."""
        b, u = seats.seat.shape[0], seats.shape[0]
        size = max(64, min(TILE // (b * u), LONGEST) // LANES * LANES)
        first, latest, earliest, last = seats.bounds
        whole = max(earliest - latest, 0) // LANES * LANES
        for low, high, inside in (
            (first, latest, False),
            (latest, latest + whole, True),
            (latest + whole, last, False),
        ):
            for at in range(low, high, size):
                yield at, min(at + size, high), inside


def _seated(values: Tensor, seat: Tensor, shape: tuple[int, int], empty: float) -> Tensor:
    b, (u, s) = values.shape[0], shape
    seated = values.new_full((b, u * s + 1), empty)
    seated.scatter_(1, seat, values.reshape(b, -1))
    return seated[:, :-1].view(b, u, s)


def _add_up(terms: Tensor) -> Tensor:
    """The sum over the last dimension.

    A comparison's bytes are added as words, each byte a counter of its own: several times as
    fast as adding booleans.
    """
    if terms.dtype != torch.bool:
        return terms.sum(-1, dtype=torch.float64)
    length = terms.shape[-1]
    if length % LANES or length > LONGEST:
        return terms.view(torch.uint8).sum(-1, dtype=torch.int32)
    counters = terms.view(torch.int64).sum(-1, keepdim=True)
    return counters.view(torch.uint8).sum(-1, dtype=torch.int32)
