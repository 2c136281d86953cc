"""Sums over the past members of each candidate's group, re-scored under its round's model.

This is where ranks spend their time. A group's past contexts are one list in order of round, a
round's window a stretch of it. Tiles of the list are scored once by every distinct model of the
rounds at hand, as a matrix product, and compared with all the candidates of that model together.
Only tiles at a window's edge need a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from fairbandit.maths.lists import Lists
from fairbandit.parts.index import Asked, Index
from fairbandit.parts.model import RewardModel
from fairbandit.parts.ranges import count_ranges
from fairbandit.parts.seats import Bounds, Seats, seatings
from fairbandit.parts.splits import Spans

TILE = 1 << 17
"""About how many scores a tile holds, so that they stay in cache."""

SEATS = 4
"""So many candidates of a model are compared at a time, so that the comparisons stay in cache."""

FEW = 64
"""So many candidates or fewer are compared with their own windows, rather than in tiles."""


class Store(Protocol):
    """Contexts of the past, one list a group in order of round: the history, or a rank's own."""

    @property
    def index(self) -> Index | None:
        """An index over the lists; None where windows are always scanned."""

    @property
    def lists(self) -> Lists | None:
        """The lists, where they lie in one table; None where `entries` has to put them together."""

    def window(self, spans: Spans) -> tuple[Tensor, Tensor]:
        """The entries that each round's window holds: start+1 … stop of each group.

        Args:
            spans: fields (N,).

        Returns:
            Starts and stops, (B, N, G) int64 each, with start ≤ stop.
        """

    def entries(self, group: int, after: int, until: int) -> Tensor:
        """Entries after+1 … until of a group: (B, until − after, d), anything where none is."""


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
        # used again, since new memory is slow at first
        self._memory = torch.empty(0, device=groups.device)

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
        theta, index, lists = self._model.theta, self._history.index, self._history.lists
        if theta is None or lists is None:
            return self._tiled(values, [])
        few, counted = values.numel() <= FEW, None
        if index is not None:
            asked = Asked(self._groups, values, self._of_round, theta)
            counted = index.at_most(asked, self._bounds, lists, tiles=not few)
        indexed = None if counted is None else index
        if few:
            total = self._few(values, theta, lists, indexed)
        else:
            total = self._tiled(values, [] if indexed is None else indexed.stretches)
        if counted is not None:
            total = total + counted
        return total.masked_fill(self._groups < 0, 0).to(torch.float64)

    def sum(self, term: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """Sums a function of past scores over each candidate's window.

        Args:
            term: an elementwise function of the past scores and of the `values`, which broadcast
                against each other; real or boolean.
            values: what the function needs of the candidate, each (B, N, K).

        Returns:
            The sums, (B, N, K) float64.
        """
        total = self._zeros()
        for group, seats in self._seatings():
            seated = [seats.place(value)[..., None] for value in values]

            def added(scores: Tensor, mask: Tensor | None, seated: list[Tensor] = seated) -> Tensor:
                terms = term(scores[:, :, None], *seated)
                terms = terms if mask is None else terms.where(mask > 0, 0)
                return terms.sum(-1, dtype=torch.float64)

            seats.collect(self._scan(group, seats, added), total)
        return total

    def _zeros(self) -> Tensor:
        return torch.zeros(self._groups.shape, dtype=torch.float64, device=self._groups.device)

    @cached_property
    def _ends(self) -> Tensor:
        """Start and stop of each round's window in every group, (2, B, N, G)."""
        return torch.stack([self._start, self._stop])

    @cached_property
    def _bounds(self) -> list[Bounds]:
        """Of the windows of all rounds, one a group."""
        (first, earliest), (latest, last) = (
            e.tolist() for e in self._ends.flatten(1, 2).aminmax(dim=1)
        )
        return [Bounds(*ends) for ends in zip(first, latest, earliest, last, strict=True)]

    def _seatings(self) -> Iterator[tuple[int, Seats]]:
        return seatings(
            self._groups,
            self._of_round,
            len(self._model),
            self._start,
            self._stop,
            self._bounds,
        )

    def _tiled(self, values: Tensor, stretches: list[tuple[int, int]]) -> Tensor:
        """Counts over the windows less the stretches, (B, N, K), by scanning in tiles."""
        total = self._zeros()
        for group, seats in self._seatings():
            stretch = stretches[group] if stretches else (0, 0)
            counts = self._scan(group, seats, _Counter(seats.place(values)), stretch)
            seats.collect(counts, total)
        return total

    def _few(self, values: Tensor, theta: Tensor, lists: Lists, index: Index | None) -> Tensor:
        """The same, (B, N, K) int64, each candidate by itself."""
        (b, u, d), own = theta.shape, self._groups.clamp(min=0)
        ends = self._ends.gather(3, own.expand(2, *own.shape))
        if index is None:
            begin, length, sign = ends[:1], ends[1:] - ends[:1], None
        else:
            # less what comes before the window's start and the stretch's, and more after the stops
            edges = index.ends[:, own]
            begin, length = torch.minimum(ends, edges), ends - edges
            sign, length = length.sign(), length.abs()
        model = None
        if b * u > 1:
            replica = torch.arange(b, device=own.device)[:, None, None]
            model = (replica * u + self._of_round[:, None]).expand(begin.shape)
        counts = count_ranges(
            lists.table,
            begin + lists.address(own),
            length,
            values.expand(begin.shape),
            theta.reshape(b * u, d),
            model,
        )
        return counts[0] if sign is None else counts[1] * sign[1] - counts[0] * sign[0]

    def _scan(
        self,
        group: int,
        seats: Seats,
        add_up: Callable[[Tensor, Tensor | None], Tensor],
        stretch: tuple[int, int] = (0, 0),
    ) -> Tensor:
        """Sums over each seat's window less those over a stretch, (B, U, S).

        Args:
            group: whose entries.
            seats: what is asked about them.
            add_up: the sums over (B, U, L) scores, of which a (B, U, S, L) mask, if there is one,
                has 1 for those that count and 0 for the others.
            stretch: start and stop of what is left out.
        """
        sums = torch.zeros(seats.start.shape, dtype=torch.float64, device=seats.start.device)
        b, u, _ = seats.start.shape
        for low, high, wanted, sign in _tiles(seats.bounds, stretch, TILE // (b * u)):
            scores = self._scores(self._history.entries(group, low, high))
            mask = None if wanted is None else seats.window(low, high, wanted)
            sums.add_(add_up(scores, mask), alpha=sign)
        return sums

    def _scores(self, contexts: Tensor) -> Tensor:
        """Scores of (B, L, d) contexts under every model, (B, U, L), until the next call."""
        theta = self._model.theta
        if theta is None:
            return self._model.score(contexts[:, None])
        shape = (*theta.shape[:2], contexts.shape[1])
        if self._memory.shape != shape:
            self._memory = theta.new_empty(shape)
        return torch.bmm(theta, contexts.transpose(1, 2), out=self._memory)


def _tiles(
    bounds: Bounds, stretch: tuple[int, int], size: int
) -> Iterator[tuple[int, int, bool | None, int]]:
    """Entries low+1 … high to be scanned for sums over windows less a stretch.

    Args:
        bounds: of the windows.
        stretch: start and stop of the stretch; equal if there is none.
        size: about how many entries a tile may have.

    Yields:
        low, high, which entries of the tile count (None: all; True: those in a seat's window;
        False: those outside it), and the sign with which they do.
    """
    size = max(64, size)
    first, latest, earliest, last = bounds.first, bounds.latest, bounds.earliest, bounds.last
    corners = sorted({first, latest, earliest, last, *stretch})
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
            yield start, min(start + size, high), wanted, -1 if within else 1


class _Counter:
    """Counts the scores that are at most the values, (B, U, S).

    Numbers in memory that is used again are several times as fast to make and to add up as new
    booleans.
    """

    def __init__(self, values: Tensor) -> None:
        self._values = values[..., None]
        self._below = values.new_empty(0)

    def __call__(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Counts over (B, U, L) scores, those alone that a (B, U, S, L) mask has."""
        b, u, s, _ = self._values.shape
        counts = scores.new_empty(b, u, s)
        for low in range(0, s, SEATS):
            seats = slice(low, low + SEATS)
            values = self._values[:, :, seats]
            shape = (*values.shape[:3], scores.shape[2])
            if self._below.shape != shape:
                self._below = scores.new_empty(shape)
            below = torch.le(scores[:, :, None], values, out=self._below)
            if mask is not None:
                below.mul_(mask[:, :, seats])
            torch.sum(below, -1, out=counts[:, :, seats])
        return counts
