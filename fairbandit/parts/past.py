"""Sums over the past members of each candidate's group, re-scored under its round's model.

This is where ranks spend their time. A group's past contexts are one list in order of round, a
round's window a stretch of it. Tiles of the list are scored once by every distinct model of the
rounds at hand, as a matrix product, and compared with all the candidates of that model together.
Only tiles at a window's edge need a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from fairbandit.parts.index import GroupIndex
from fairbandit.parts.model import RewardModel
from fairbandit.parts.splits import Spans

TILE = 1 << 18
"""About how many scores a tile holds, so that they stay in cache."""

LANES = 8
"""Bytes in a word: comparisons are counted in bytes, eight at a time."""

LONGEST = 255 * LANES
"""The most entries of a tile, lest a byte overflow."""


class Store(Protocol):
    """Contexts of the past, one list a group in order of round: the history, or a rank's own."""

    @property
    def indexes(self) -> Sequence[GroupIndex]:
        """One index a group over its entries; none where windows are always scanned."""

    def window(self, spans: Spans) -> tuple[Tensor, Tensor]:
        """The entries that each round's window holds: start+1 … stop of each group.

        Args:
            spans: fields (N,).

        Returns:
            Starts and stops, (B, N, G) int64 each, with start ≤ stop.
        """

    def entries(self, group: int, after: int, until: int) -> Tensor:
        """Entries after+1 … until of a group: (B, until − after, d), anything where none is."""


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

    def window(self, index: Tensor, low: int, high: int) -> Tensor:
        """Which of the entries low+1 … high each seat's window holds, (B, U, S, high − low)."""
        _, latest, earliest, _ = self.bounds
        if high <= earliest:
            return self.start[..., None] <= index
        over = index < self.stop[..., None]
        return over if low >= latest else over & (self.start[..., None] <= index)

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
        history: past contexts by group, up to the last of the rounds asked about.
        spans: the rounds' windows, fields (N,).
        groups: the candidates' groups, (B, N, K).
        model: the U reward models of the rounds.
        of_round: which model each round uses, (N,) int64, nondecreasing.
    """

    def __init__(
        self,
        history: Store,
        spans: Spans,
        groups: Tensor,
        model: RewardModel,
        of_round: Tensor,
    ) -> None:
        self._history, self._spans, self._groups = history, spans, groups
        self._model, self._of_round = model, of_round
        self._start, self._stop = history.window(spans)

    def of(self, groups: Tensor) -> Past:
        """The same rounds' windows, asked about other groups than the candidates' own.

        Args:
            groups: (B, N, M) int64 for any M, −1 for none.

        Returns:
            A past whose values and sums are (B, N, M).
        """
        return Past(self._history, self._spans, groups, self._model, self._of_round)

    @cached_property
    def every(self) -> Past:
        """The same rounds' windows, asked about every group once: M = G."""
        b, n, g = self._start.shape
        return self.of(torch.arange(g, device=self._groups.device).expand(b, n, g))

    @cached_property
    def count(self) -> Tensor:
        """How many past contexts of its group each candidate's window holds: (B, N, K) float64."""
        inside = (self._stop - self._start).gather(2, self._groups.clamp(min=0))
        return inside.masked_fill(self._groups < 0, 0).to(torch.float64)

    @cached_property
    def mean(self) -> Tensor:
        """Mean of the past scores, (B, N, K), NaN where there are none."""
        return self.sum(lambda old: old) / self.count

    @cached_property
    def variance(self) -> Tensor:
        """Variance of the past scores with divisor n, (B, N, K), NaN where there are none."""
        return self.sum(lambda old, mean: (old - mean) ** 2, self.mean) / self.count

    def at_most(self, values: Tensor) -> Tensor:
        """How many of those contexts score no higher than a value of the candidate.

        Args:
            values: (B, N, K), such as the candidates' ceilings.

        Returns:
            Counts, (B, N, K) float64.
        """
        total = torch.zeros(self._groups.shape, dtype=torch.float64, device=self._groups.device)
        theta, indexes = self._model.theta, self._history.indexes
        for group, seats in self._seatings():
            seated = seats.place(values)
            counted, stretch = None, (0, 0)
            if indexes and theta is not None:
                entries = partial(self._history.entries, group)
                counted = indexes[group].at_most(seated, theta, seats.bounds, entries)
            if counted is not None:
                stretch = (indexes[group].start, indexes[group].stop)
            counts = self._scan(group, seats, torch.le, [seated], stretch)
            counts = counts if counted is None else counts + counted
            seats.collect(counts, into=total)
        return total

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
            seated = [seats.place(value) for value in values]
            seats.collect(self._scan(group, seats, term, seated), into=total)
        return total

    def _scan(
        self,
        group: int,
        seats: _Seats,
        term: Callable[..., Tensor],
        seated: list[Tensor],
        stretch: tuple[int, int] = (0, 0),
    ) -> Tensor:
        """Sums over each seat's window less those over a stretch, (B, U, S)."""
        sums = torch.zeros(seats.start.shape, dtype=torch.float64, device=seats.start.device)
        b, u, _ = seats.start.shape
        for low, high, wanted, sign in _tiles(seats.bounds, stretch, TILE // (b * u)):
            scores = self._model.score(self._history.entries(group, low, high)[:, None])
            terms = term(scores[:, :, None], *(value[..., None] for value in seated))
            if wanted is not None:
                index = torch.arange(low, high, device=sums.device)
                window = seats.window(index, low, high)
                mask = window if wanted else ~window
                terms = terms & mask if terms.dtype == torch.bool else terms.where(mask, 0)
            sums.add_(_add_up(terms), alpha=sign)
        return sums

    def _seatings(self) -> Iterator[tuple[int, _Seats]]:
        for group in range(self._start.shape[2]):
            seats = self._seat(group)
            if seats is not None:
                yield group, seats

    @cached_property
    def _models(self) -> tuple[Tensor, Tensor]:
        """Each candidate's model, (N·K,), and each model's first candidate, (U,)."""
        of_candidate = self._of_round.repeat_interleave(self._groups.shape[2])
        models = torch.arange(len(self._model), device=of_candidate.device)
        return of_candidate, torch.searchsorted(of_candidate, models)

    def _seat(self, group: int) -> _Seats | None:
        b, n, k = self._groups.shape
        member = (self._groups == group).view(b, n * k)
        if not bool(member.any()):
            return None
        of_candidate, first = self._models
        order = member.cumsum(1)
        # less the members seated before each model's first round
        before = torch.cat([order.new_zeros(b, 1), order], 1)[:, first]
        seat = order - 1 - before[:, of_candidate]
        u, s = len(self._model), int(seat[member].max()) + 1
        seat = torch.where(member, of_candidate * s + seat, u * s)
        start, stop = (
            totals[:, :, group, None].expand(b, n, k) for totals in (self._start, self._stop)
        )
        low, high = (totals.reshape(b, n * k)[member].aminmax() for totals in (start, stop))
        bounds = (int(low.min), int(low.max), int(high.min), int(high.max))
        return _Seats(
            seat, (u, s), _seated(start, seat, (u, s), 0), _seated(stop, seat, (u, s), 0), bounds
        )


def _tiles(
    bounds: tuple[int, int, int, int], stretch: tuple[int, int], size: int
) -> Iterator[tuple[int, int, bool | None, int]]:
    """Entries low+1 … high to be scanned for sums over windows less a stretch.

    Args:
        bounds: least and greatest start, least and greatest stop of the windows.
        stretch: start and stop of the stretch; equal if there is none.
        size: about how many entries a tile may have.

    Yields:
        low, high, which entries of the tile count (None: all; True: those in a seat's window;
        False: those outside it), and the sign with which they do.
    """
    size = max(64, min(size, LONGEST) // LANES * LANES)
    first, latest, earliest, last = bounds
    corners = sorted({*bounds, *stretch})
    for low, high in pairwise(corners):
        within = stretch[0] <= low < stretch[1]
        wanted: bool | None = None
        if latest <= low and high <= earliest:  # in every window
            if within:
                continue
        elif high <= first or low >= last:  # in none
            if not within:
                continue
        else:
            wanted = not within
        for start in range(low, high, size):
            stop = min(start + size, high)
            whole = start + (stop - start) // LANES * LANES
            for at, end in ((start, whole), (whole, stop)):
                if at < end:
                    yield at, end, wanted, -1 if within else 1


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
