"""Sums over the past members of each candidate's group, re-scored under its round's model.

This is where ranks spend their time. A group's past contexts are one list in order of round, a
round's window a stretch of it. Many rounds at once are compared with theirs in tiles, a few one by
one, and of long windows the most part is counted by an index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from fairbandit.maths.lists import Lists
from fairbandit.parts.index import Asked, Index
from fairbandit.parts.model import RewardModel
from fairbandit.parts.ranges import count_ranges
from fairbandit.parts.seats import Bounds, Edge, Seating
from fairbandit.parts.splits import Division
from fairbandit.parts.store import Store
from fairbandit.parts.tiles import AddUp, counting, scan

FEW = 64
"""So many candidates or fewer are compared with their windows one by one, rather than in tiles."""


class Past:
    """For each candidate, the past contexts of its group in its round's window.

    Args:
        history: past contexts by group, up to the last of the rounds asked about.
        division: the rounds' windows, fields (N,).
        groups: the candidates' groups, (B, N, K).
        model: the U reward models of the rounds.
        of_round: which model each round uses, (N,) int64, nondecreasing.
    """

    def __init__(
        self,
        history: Store,
        division: Division,
        groups: Tensor,
        model: RewardModel,
        of_round: Tensor,
    ) -> None:
        self._history, self._division, self._groups = history, division, groups
        self._model, self._of_round = model, of_round
        self._start, self._stop = history.window(division)

    def of(self, groups: Tensor) -> Past:
        """The same rounds' windows, asked about other groups than the candidates' own.

        Args:
            groups: (B, N, M) int64 for any M, −1 for none.

        Returns:
            A past whose values and sums are (B, N, M).
        """
        return Past(self._history, self._division, groups, self._model, self._of_round)

    @cached_property
    def every(self) -> Past:
        """The same rounds' windows, asked about every group once: M = G."""
        b, n, g = self._start.shape
        return self.of(torch.arange(g, device=self._groups.device).expand(b, n, g))

    @cached_property
    def count(self) -> Tensor:
        """How many past contexts of its group each candidate's window holds: (B, N, K) float64."""
        inside = self._length.gather(2, self._own).masked_fill(self._absent, 0)
        return inside.to(torch.float64)

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
            asked = Asked(self._own, values, self._of_round, theta)
            counted = index.at_most(asked, self._bounds, lists, tiles=not few)
        indexed = None if counted is None else index
        if few:
            total = self._few(values, theta, lists, indexed)
        else:
            total = self._tiled(values, [] if indexed is None else indexed.stretches)
        if counted is not None:
            total = total + counted
        return total.masked_fill(self._absent, 0)

    def sum(self, term: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """Sums a function of past scores over each candidate's window.

        Args:
            term: an elementwise function of the past scores and of the `values`, which broadcast
                against each other; real or boolean.
            values: what the function needs of the candidate, each (B, N, K).

        Returns:
            The sums, (B, N, K) float64.
        """
        placed = [self._seating.place(value) for value in values]

        def summed(at: int) -> Tensor:
            own = [seated[at][..., None] for seated in placed]

            def added(scores: Tensor, edges: list[Edge]) -> Tensor:
                terms = term(scores[:, :, None], *own)
                if edges:
                    shape = *edges[0][1].shape[:3], terms.shape[3]
                    counts = torch.ones(shape, dtype=torch.bool, device=terms.device)
                    for part, mask in edges:
                        counts[..., part] = mask > 0
                    terms = terms.where(counts, 0)
                return terms.sum(-1, dtype=torch.float64)

            return self._scan(at, added)

        return self._over_groups(summed)

    @cached_property
    def _absent(self) -> Tensor:
        return self._groups < 0

    @cached_property
    def _own(self) -> Tensor:
        """The candidates' groups, 0 for none."""
        return self._groups.clamp(min=0)

    @cached_property
    def _length(self) -> Tensor:
        """How many entries each round's window has in every group, (B, N, G)."""
        return self._stop - self._start

    @cached_property
    def _ends(self) -> Tensor:
        """Start and stop of each round's window in every group, (2, B, N, G)."""
        return torch.stack([self._start, self._stop])

    @cached_property
    def _bounds(self) -> list[Bounds]:
        """Of the windows of all rounds, one a group."""
        ends = self._ends.flatten(1, 2)
        low, high = (ends[:, 0],) * 2 if ends.shape[1] == 1 else ends.aminmax(dim=1)
        (first, earliest), (latest, last) = low.tolist(), high.tolist()
        return list(map(Bounds, first, latest, earliest, last))

    @cached_property
    def _alike(self) -> bool:
        """Whether all replicas have the same groups and windows."""
        same = (self._groups == self._groups[:1]).all() & (self._ends == self._ends[:, :1]).all()
        return bool(same)

    @cached_property
    def _seating(self) -> Seating:
        replicas = slice(1) if self._alike else slice(None)
        start, stop = self._start[replicas], self._stop[replicas]
        groups, models = self._groups[replicas], len(self._model)
        return Seating(groups, self._of_round, models, start, stop, self._bounds)

    def _tiled(self, values: Tensor, stretches: list[tuple[int, int]]) -> Tensor:
        """Counts over the windows less the stretches, (B, N, K), by scanning in tiles."""
        placed = self._seating.place(values)
        return self._over_groups(lambda at: self._scan(at, counting(placed[at]), stretches))

    def _over_groups(self, work: Callable[[int], Tensor]) -> Tensor:
        """What some work gives for each of the groups' seats, for the candidates: (B, N, K)."""
        found = self._seating.collect([work(at) for at in range(len(self._seating.seats))])
        return found.expand(self._groups.shape)

    def _scan(
        self, at: int, add_up: AddUp, stretches: list[tuple[int, int]] | None = None
    ) -> Tensor:
        seats = self._seating.seats[at]
        stretch = stretches[seats.group] if stretches else (0, 0)
        return scan(self._history, self._model, seats, add_up, stretch)

    def _few(self, values: Tensor, theta: Tensor, lists: Lists, index: Index | None) -> Tensor:
        """The same, group by group: each round's pool is compared with all windows at once."""
        (b, u, _), (_, _, g), k = theta.shape, self._start.shape, values.shape[2]
        if index is None:
            begin, length, sign = self._start[None], self._length[None], None
        else:
            # less what lies between the stretch's start and the window's, and more between stops
            begin, more = torch.minimum(self._ends, index.ends), self._ends - index.ends
            length, sign = more.abs(), more.sign() * index.signs
        present = torch.zeros_like(self._start).scatter_(2, self._own, 1)
        model = None
        if b * u > 1 or lists.columns.kept is not None:
            replica = torch.arange(b, device=values.device)[:, None, None]
            group = torch.arange(g, device=values.device)
            model = ((replica * u + self._of_round[:, None]) * g + group).expand(begin.shape)
            theta = lists.columns.of_groups(theta)
        counts = count_ranges(
            lists.table,
            begin + lists.addresses,
            length * present,
            values.unsqueeze(2).expand(*begin.shape, k),
            theta.reshape(-1, theta.shape[-1]),
            model,
        )
        total = counts[0] if sign is None else (counts * sign.unsqueeze(4)).sum(0)
        return total.gather(2, self._own.unsqueeze(2)).squeeze(2)
