"""An index over past contexts: exact counts under models that drift slowly, without a full scan.

A stretch of each group's contexts is sorted once by its scores under a reference model θ₀. Under a
later θ = θ₀ + Δ a score moves by ⟨x, Δ⟩ = ⟨m, Δ⟩ + ⟨x − m, Δ⟩ for any m, and by Cauchy-Schwarz
|⟨x − m, Δ⟩| ≤ ‖x − m‖_{C⁻¹}·‖Δ‖_C for any positive definite C; a mean and a covariance of such
contexts make the bound tight. So all contexts whose reference score lies below a candidate's by
more than the bound count, all above do not, and only the few in between are scored again. Contexts
are sorted in shells of like ‖x − m‖_{C⁻¹}, since the few that lie far out would loosen the bound of
all the others.
"""

from __future__ import annotations

from operator import mul
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.maths.lists import Lists
from fairbandit.parts.ranges import count_ranges
from fairbandit.parts.seats import Bounds
from fairbandit.parts.shells import SHELLS, Measured

SHORTEST = 256
"""Fewer contexts than this are not worth sorting."""

WORTHWHILE = 64
"""Sorting is not begun where it costs more than so many scans."""


class Asked(NamedTuple):
    """Candidates, and how many past contexts of their groups score no higher than their values.

    Attributes:
        groups: (B, N, K) int64, any where there is no candidate.
        values: (B, N, K); NaN where nothing is asked.
        of_round: which model each round uses, (N,) int64.
        theta: θ of the U linear models, (B, U, d).
    """

    groups: Tensor
    values: Tensor
    of_round: Tensor
    theta: Tensor


class SortedStretch:
    """The contexts of one stretch of each group's list, sorted under a reference model.

    All lie in one table: shell after shell, group after group, replica after replica. A context's
    key is twice the number of its shell in this order plus its score, brought to [0, 1], so that
    one search finds places in all of them.

    Args:
        lists: the contexts.
        stretches: start and stop of each group's, the same for all replicas.
        theta: the reference θ₀, (B, d).
        before: a stretch that is needed no longer, whose memory is used again.
    """

    def __init__(
        self,
        lists: Lists,
        stretches: list[tuple[int, int]],
        theta: Tensor,
        before: SortedStretch | None = None,
    ) -> None:
        b, g, s = len(theta), len(stretches), len(SHELLS)
        self._columns = lists.columns
        d = self._columns.width
        self._theta = self._columns.of_groups(theta[:, None])
        if before is None or before._columns is not self._columns:
            self._measured = Measured(g)
        else:
            self._measured = before._measured
        # by replica and group: how keys go with scores, and how drift moves and spreads them
        self._scale, low = theta.new_ones(b, g, 1), theta.new_zeros(b, g, 1)
        factor, mean = theta.new_zeros(b, g, d, d), theta.new_zeros(b, g, d)
        # by shell: the margin for each unit of spread, and the one for rounding
        radius, off = theta.new_zeros(b, g, s), theta.new_zeros(b, g, s)
        keys, places = [], []
        first = torch.arange(b, device=theta.device)[:, None] * g
        for group, (after, until) in enumerate(stretches):
            if after == until:
                continue
            contexts, own = lists.kept(group, after, until), self._theta[:, 0, group]
            shells = self._measured.of(group, contexts, after)
            scores = (contexts @ own[..., None])[..., 0]
            least = scores.amin(1, keepdim=True)
            spread = scores.amax(1, keepdim=True) - least
            scale = 1 / spread.where(spread > 0, 1.0)
            self._scale[:, group], low[:, group] = scale, least * scale
            mean[:, group], factor[:, group] = shells.mean * scale, shells.factor * scale[..., None]
            radius[:, group] = shells.radius
            size = torch.linalg.vector_norm(own, dim=1, keepdim=True)
            off[:, group] = 2 * shells.rounding * size * scale
            number = 2 * ((first + group) * s + shells.shell)
            keys.append((scores.sub_(least).mul_(scale).add_(number)).flatten())
            entry = torch.arange(after, until, device=theta.device)
            places.append((lists.addresses[:, :, group] + entry).flatten())
        # drift times this is how it spreads and moves the keys of each group
        self._effects = torch.cat([factor, mean.unsqueeze(3)], 3)
        self._keys, order = torch.cat(keys).sort()
        # new memory is slow at first
        self._memory: Tensor = theta.new_empty(0) if before is None else before._memory
        if len(self._memory) < len(order) * d:
            self._memory = theta.new_empty(len(order) * d * 5 // 4)
        self._table = self._memory[: len(order) * d].view(-1, d)
        torch.index_select(lists.table, 0, torch.cat(places)[order], out=self._table)
        number = 2.0 * torch.arange(b * g * s, device=theta.device, dtype=theta.dtype)
        start = (low - number.view(b, g, s)).unsqueeze(2)
        # two keys are off by so much
        off = (off + 4 * torch.finfo(theta.dtype).eps * (2 * b * g * s + 2)).unsqueeze(2)
        # from scaled values to the keys between which contexts have to be scored again
        self._starts = torch.stack([start + off, start - off])
        self._radii = torch.stack([radius, -radius]).unsqueeze(3)
        ends = torch.searchsorted(self._keys, torch.stack([number - 0.5, number + 1.5]))
        self._limits = ends.view(2, b * g, s)

    def at_most(self, asked: Asked, budget: float = torch.inf) -> tuple[Tensor, int] | None:
        """How many of the contexts of each candidate's group score no higher, exactly.

        Args:
            asked: the candidates.
            budget: the most contexts to score again.

        Returns:
            Counts, (B, N, K) float64, anything where there is no candidate; and how many contexts
            were scored again for them. None if they would be more than the budget.
        """
        groups, values, of_round, theta = asked
        (b, u, _), (_, _, g, _, s) = theta.shape, self._radii.shape
        models = self._columns.of_groups(theta)
        d = self._columns.width
        effects = torch.matmul((models - self._theta).transpose(1, 2), self._effects)
        spread = torch.linalg.vector_norm(effects[..., :d], dim=3, keepdim=True)
        shifts = torch.addcmul(self._starts, spread, self._radii)
        shifts = shifts.add_(effects[..., d:]).view(2, -1, s)
        own, frame, model = groups, groups, None
        if b * u > 1:
            replica = torch.arange(b, device=groups.device)[:, None, None]
            own = own + replica * g
            frame = own * u + of_round[:, None]
        if b * u > 1 or self._columns.kept is not None:
            model = frame.unsqueeze(3)
            theta = models.transpose(1, 2)
        scaled = (values * self._scale.view(-1)[own])[..., None]
        ends = scaled - shifts[:, frame]
        begin, end = self._limits[:, own]
        low, high = torch.searchsorted(self._keys, ends).clamp_(begin, end)
        length = high - low
        again = int(length.sum())
        if again > budget:
            return None
        counts = low - begin
        if again:
            every = values[..., None, None].expand(*length.shape, 1)
            model = None if model is None else model.expand(length.shape)
            theta = theta.reshape(-1, d)
            found = count_ranges(self._table, low, length, every, theta, model)
            counts = counts + found.squeeze(4)
        return counts.sum(3), again


class Costs(NamedTuple):
    """What each way to count costs, in nanoseconds on an ordinary core: guides, never decisions.

    Attributes:
        entry: comparing one more entry of each group with the candidates of that group.
        again: scoring one context again.
        use: searching for all candidates.
        sorting: sorting one entry of a list in, for all replicas.
    """

    entry: list[float]
    again: float
    use: float
    sorting: float

    @classmethod
    def of(cls, asked: Asked, width: int, lengths: list[int], tiles: bool) -> Costs:
        """The costs for some candidates.

        Args:
            asked: the candidates, of whom each group has as large a share as of the entries.
            width: how many features are kept.
            lengths: how many entries of each group are to be compared.
            tiles: whether windows are scanned in tiles, or round by round.
        """
        (b, n, k), u, d = asked.groups.shape, asked.theta.shape[1], width
        again, candidates, total = 10 + 1.4 * d, b * n * k, max(1, sum(lengths))
        if tiles:
            models = 0.056 * b * d * u
            entry = [models + 0.5 * candidates * length / total for length in lengths]
        else:
            entry = [b * n * (again + k)] * len(lengths)
        return cls(entry, again, 1e5 + 1000.0 * candidates, b * (200.0 + 5 * d))


class Index:
    """The sorted stretch, and when it pays to sort anew, or not to.

    Windows move on and models drift, so that ever more entries beside the stretch are scanned and
    ever more of it is scored again. Once that work has cost as much as sorting, the stretch is
    sorted anew over the windows' common part. Where scanning everything is cheaper, the index is
    given up until windows have grown.

    Attributes:
        stretches: entries start+1 … stop of each group are sorted.
        ends: the same as a tensor, (2, 1, 1, G).
        signs: −1 for starts and 1 for stops, (2, 1, 1, 1).
    """

    ends: Tensor
    signs: Tensor

    def __init__(self) -> None:
        self.stretches: list[tuple[int, int]] = []
        self._sorted: SortedStretch | None = None
        self._spent = self._saved = 0.0
        self._least = 0.0  # scans cheaper than this are not worth an index

    def at_most(
        self, asked: Asked, bounds: list[Bounds], lists: Lists, tiles: bool
    ) -> Tensor | None:
        """How many entries of the stretches score no higher than the candidates' values.

        Args:
            asked: the candidates.
            bounds: of their windows, one a group.
            lists: the entries.
            tiles: whether the rest of the windows is scanned in tiles, or round by round.

        Returns:
            Counts over `stretches`, (B, N, K) float64; None where scanning the windows whole is the
            better way.
        """
        lengths = [every.last - every.first for every in bounds]
        costs = Costs.of(asked, lists.columns.width, lengths, tiles)
        scan = sum(map(mul, costs.entry, lengths))
        if scan < max(3 * costs.use, self._least):
            return None
        common = [(every.latest, max(every.latest, every.earliest)) for every in bounds]
        length = sum(until - after for after, until in common)
        price = costs.sorting * length
        if self._sorted is not None and self._spent <= price:
            counts = self._count(asked, bounds, costs, scan)
            if counts is not None:
                return counts
        elif self._sorted is not None and self._spent + price > self._saved:
            self._give_up(scan)
            return None
        if length < SHORTEST or price > scan * WORTHWHILE:
            return None
        self.stretches = common
        self.ends = torch.tensor(common, device=asked.groups.device).T[:, None, None]
        self.signs = self.ends.new_tensor([-1, 1]).view(2, 1, 1, 1)
        self._sorted = SortedStretch(lists, common, asked.theta[:, -1], self._sorted)
        self._spent = self._saved = 0.0
        counts = self._count(asked, bounds, costs, scan)
        if counts is None:
            self._give_up(scan)
        return counts

    def least(self, entries: list[int]) -> list[int]:
        """The first entries that are still read, where windows start at the given ones."""
        if self._sorted is None:
            return entries
        return [min(n, start) for n, (start, _) in zip(entries, self.stretches, strict=True)]

    def _count(
        self, asked: Asked, bounds: list[Bounds], costs: Costs, scan: float
    ) -> Tensor | None:
        assert self._sorted is not None
        beside = sum(
            entry * (abs(every.latest - start) + abs(every.last - stop))
            for entry, every, (start, stop) in zip(costs.entry, bounds, self.stretches, strict=True)
        )
        left = scan - beside - costs.use
        found = self._sorted.at_most(asked, left / costs.again)
        if found is None:
            return None
        counts, again = found
        self._saved += scan - costs.use
        self._spent += beside + again * costs.again
        return counts

    def _give_up(self, scan: float) -> None:
        self.stretches, self._sorted, self._least = [], None, 1.5 * scan
