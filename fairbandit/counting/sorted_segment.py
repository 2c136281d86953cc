"""The sorted segment: exact counts under models that drift slowly, without a scan of all contexts.

A segment of each group's contexts is sorted once by its scores under a reference model θ₀. Under a
later model θ₀ + Δ a score moves by ⟨x, Δ⟩ = ⟨m, Δ⟩ + ⟨x − m, Δ⟩ for any m, and the second term is
bounded (see `bins`). So all contexts count whose reference score plus ⟨m, Δ⟩ is below a value by
more than the bound, none counts for which it is above by more, and only those between are scored
again. Contexts are put into bins by their distance from the mean m, since those far from it would
loosen the bound for all.

Reference: Hazy maintains its views by the same idea: Koc and Ré, Incrementally Maintaining
Classification using an RDBMS, VLDB 2011.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.counting.bins import SHARES, Bins, bins_of
from fairbandit.counting.buffer import RaggedBuffer
from fairbandit.counting.mask import FeatureMask
from fairbandit.counting.scan import Limits
from fairbandit.counting.segments import count_segments

SHORTEST = 256
"""Fewer contexts than this are not worth sorting."""

WORTHWHILE = 64
"""The segment is not sorted if that costs more than so many scans."""


class Asked(NamedTuple):
    """Values that are to be compared with the past scores of their groups.

    Attributes:
        groups: (B, N, M) int64, any where nothing is asked.
        values: (B, N, M); NaN where nothing is asked.
        of_round: which model each round uses, (N,) int64.
        theta: weights of the U linear models, (B, U, d).
    """

    groups: Tensor
    values: Tensor
    of_round: Tensor
    theta: Tensor


class BinsOfGroup(NamedTuple):
    """The bins of one group's contexts in a segment; the next segment reuses their norms.

    Attributes:
        mask: which features of the contexts are stored.
        start: the first entry of the segment.
        bins: the bins of its entries.
    """

    mask: FeatureMask
    start: int
    bins: Bins


def _bins(
    before: BinsOfGroup | None, mask: FeatureMask, segment: tuple[int, int], contexts: Tensor
) -> Bins:
    """The bins of a group's contexts (B, L, w), the entries start … stop − 1 of a segment.

    Norms are taken from the bins of the segment before, if both have entries in common.
    """
    start, stop = segment
    if before is not None and before.mask is mask:
        end = before.start + before.bins.measured.shape[1]
        if before.start <= start < end <= stop:
            return before.bins.moved(start - before.start, contexts)
    return bins_of(contexts)


class SortedSegment:
    """A segment of the contexts of each group, sorted under a reference model.

    All lie in one table, ordered by replica, group and bin. The key of a context is its score,
    brought to [0, 1], plus twice the number of its bin in this order, so that one search finds
    places in all bins.

    Args:
        buffer: the contexts.
        segments: start and stop of each group's segment, the same for all replicas.
        theta: the reference θ₀, (B, d).
        before: the bins of the segment before, by group.

    Attributes:
        bins: the bins of this segment, by group.
    """

    def __init__(
        self,
        buffer: RaggedBuffer,
        segments: list[tuple[int, int]],
        theta: Tensor,
        before: Mapping[int, BinsOfGroup] = MappingProxyType({}),
    ) -> None:
        b, g, s = len(theta), len(segments), len(SHARES)
        self._mask = buffer.mask
        self.bins: dict[int, BinsOfGroup] = {}
        d = self._mask.width
        self._theta = self._mask.of_all_groups(theta[:, None])
        # by replica and group: how keys follow from scores, and how drift moves and spreads them
        self._scale, low = theta.new_ones(b, g, 1), theta.new_zeros(b, g, 1)
        factor, mean = theta.new_zeros(b, g, d, d), theta.new_zeros(b, g, d)
        # by bin: the bound for each unit of spread, and the one for rounding
        radius, off = theta.new_zeros(b, g, s), theta.new_zeros(b, g, s)
        keys, rows = [], []
        first = torch.arange(b, device=theta.device)[:, None] * g
        for group, (start, stop) in enumerate(segments):
            if start == stop:
                continue
            contexts, own = buffer.stored(group, start, stop), self._theta[:, 0, group]
            bins = _bins(before.get(group), self._mask, (start, stop), contexts)
            self.bins[group] = BinsOfGroup(self._mask, start, bins)
            scores = (contexts @ own[..., None])[..., 0]
            least = scores.amin(1, keepdim=True)
            spread = scores.amax(1, keepdim=True) - least
            scale = 1 / spread.where(spread > 0, 1.0)
            self._scale[:, group], low[:, group] = scale, least * scale
            norms = bins.norms
            mean[:, group], factor[:, group] = norms.mean * scale, norms.factor * scale[..., None]
            radius[:, group] = bins.radius
            size = torch.linalg.vector_norm(own, dim=1, keepdim=True)
            off[:, group] = 2 * bins.rounding * size * scale
            number = 2 * ((first + group) * s + bins.bin)
            keys.append((scores.sub_(least).mul_(scale).add_(number)).flatten())
            entry = torch.arange(start, stop, device=theta.device)
            rows.append((buffer.addresses[:, :, group] + entry).flatten())
        # the product of a drift with this is how it spreads and moves the keys of each group
        self._effects = torch.cat([factor, mean.unsqueeze(3)], 3)
        self._keys, order = torch.cat(keys).sort()
        self._table = buffer.table.index_select(0, torch.cat(rows)[order])
        number = 2.0 * torch.arange(b * g * s, device=theta.device, dtype=theta.dtype)
        start_key = (low - number.view(b, g, s)).unsqueeze(2)
        # two keys may be off by so much
        off = (off + 4 * torch.finfo(theta.dtype).eps * (2 * b * g * s + 2)).unsqueeze(2)
        # lead from scaled values to the keys between which contexts have to be scored again
        self._starts = torch.stack([start_key + off, start_key - off])
        self._radii = torch.stack([radius, -radius]).unsqueeze(3)
        ends = torch.searchsorted(self._keys, torch.stack([number - 0.5, number + 1.5]))
        self._limits = ends.view(2, b * g, s)

    def count_le(self, asked: Asked, budget: float = torch.inf) -> tuple[Tensor, int] | None:
        """How many contexts of each value's group score no higher, exactly.

        Returns:
            Counts, (B, N, M) float64, anything where nothing is asked; and how many contexts were
            scored again. None if those would be more than the budget.
        """
        groups, values, of_round, theta = asked
        (b, u, _), (_, _, g, _, s) = theta.shape, self._radii.shape
        models, d = self._mask.of_all_groups(theta), self._mask.width
        effects = torch.matmul((models - self._theta).transpose(1, 2), self._effects)
        spread = torch.linalg.vector_norm(effects[..., :d], dim=3, keepdim=True)
        shifts = torch.addcmul(self._starts, spread, self._radii)
        shifts = shifts.add_(effects[..., d:]).view(2, -1, s)
        own, frame, model = groups, groups, None
        if b * u > 1:
            replica = torch.arange(b, device=groups.device)[:, None, None]
            own = own + replica * g
            frame = own * u + of_round[:, None]
        # from here on the values are in one dimension, and their bins in a second one
        own, frame, flat = own.flatten(), frame.flatten(), values.reshape(-1, 1)
        if b * u > 1 or self._mask.features is not None:
            model = frame[:, None].expand(-1, s)
            theta = models.transpose(1, 2)
        scaled = flat * self._scale.view(-1, 1).index_select(0, own)
        ends = scaled - shifts.index_select(1, frame)
        begin, end = self._limits.index_select(1, own).unbind()
        low, high = torch.searchsorted(self._keys, ends).clamp_(begin, end).unbind()
        length = high - low
        again = int(length.sum())
        if again > budget:
            return None
        counts = low - begin
        if again:
            every = flat[:, None].expand(-1, s, 1)
            found = count_segments(self._table, low, length, every, theta.reshape(-1, d), model)
            counts = counts + found.squeeze(2)
        return counts.sum(1).view(values.shape), again


class Costs(NamedTuple):
    """What the ways to count cost. Costs decide how to count, and never change the counts.

    The unit is the cost of scoring one context under one model in a chunked scan.

    Attributes:
        entry: scanning one more entry of a group, in all replicas and rounds.
        again: scoring one context of the segment again.
        search: searching the segment for all values.
        sort: sorting one more entry of a group into the segment, in all replicas.
    """

    entry: float
    again: float
    search: float
    sort: float

    @classmethod
    def of(cls, asked: Asked, width: int, chunked: bool) -> Costs:
        """The costs, as measured, where entries outside the segment are `chunked` or gathered.

        The unit grows with the width, which is how many features are stored of each context; the
        fixed time of a search does not.
        """
        (b, n, m), u = asked.groups.shape, asked.theta.shape[1]
        search = (1200 if chunked else 600) * (400 / width + b * n * m)
        return cls(b * u if chunked else 10 * b * n, 10, search, 60 * b)


class SortedCounts:
    """Counts over long windows by a sorted segment, and decides when to sort and when to scan.

    As windows move on and models drift, more entries outside the segment are scanned, and more
    inside are scored again. Once this has cost as much as sorting, the windows' common part is
    sorted once more. The segment is given up, until windows have grown, if scanning all costs less.

    Attributes:
        segments: entries start … stop − 1 of each group are sorted; empty while nothing is.
        ends: the same as a tensor, (2, 1, 1, G).
    """

    ends: Tensor

    def __init__(self) -> None:
        self.segments: list[tuple[int, int]] = []
        self._sorted: SortedSegment | None = None
        self._spent = self._saved = 0.0
        self._least = 0.0  # a scan that costs less than this is not worth sorting

    def count_le(
        self, asked: Asked, limits: list[Limits], buffer: RaggedBuffer, chunked: bool
    ) -> Tensor | None:
        """How many entries of the segments score no higher than each value.

        Args:
            asked: the values.
            limits: of their windows, one for each group.
            buffer: the entries.
            chunked: as for `Costs.of`.

        Returns:
            Counts over `segments`, (B, N, M) float64; None if a scan of all windows costs less.
        """
        costs = Costs.of(asked, buffer.mask.width, chunked)
        scan = costs.entry * sum(limit.greatest_stop - limit.least_start for limit in limits)
        if scan < max(3 * costs.search, self._least):
            return None
        common = [
            (limit.greatest_start, max(limit.greatest_start, limit.least_stop)) for limit in limits
        ]
        length = sum(stop - start for start, stop in common)
        price = costs.sort * length
        if self._sorted is not None and self._spent <= price:
            counts = self._count(asked, limits, costs, scan)
            if counts is not None:
                return counts
        elif self._sorted is not None and self._spent + price > self._saved:
            self._give_up(scan)
            return None
        if length < SHORTEST or price > scan * WORTHWHILE:
            return None
        before = {} if self._sorted is None else self._sorted.bins
        self._sorted = None  # frees its memory for the new one: pages never used are slow
        self._sorted = SortedSegment(buffer, common, asked.theta[:, -1], before)
        self.segments = common
        self.ends = torch.tensor(common, device=asked.groups.device).T[:, None, None]
        self._spent = self._saved = 0.0
        counts = self._count(asked, limits, costs, scan)
        if counts is None:
            self._give_up(scan)
        return counts

    def keep(self, counts: list[int]) -> list[int]:
        """Which first entries may go, where windows have left so many: not those of the segments.

        The entries of a segment outside a window are subtracted by scanning them. A segment that
        some group's windows have left is given up, so that it does not keep entries for ever.
        """
        ends = zip(counts, self.segments, strict=False)
        if any(start < stop <= count for count, (start, stop) in ends):
            self._give_up(0.0)
        starts = [start for start, _ in self.segments] or counts
        return [min(both) for both in zip(counts, starts, strict=True)]

    def _count(
        self, asked: Asked, limits: list[Limits], costs: Costs, scan: float
    ) -> Tensor | None:
        assert self._sorted is not None
        beside = costs.entry * sum(
            abs(limit.greatest_start - start) + abs(limit.greatest_stop - stop)
            for limit, (start, stop) in zip(limits, self.segments, strict=True)
        )
        budget = scan - costs.search
        found = self._sorted.count_le(asked, (budget - beside) / costs.again)
        if found is None:
            return None
        counts, again = found
        self._saved += budget
        self._spent += beside + again * costs.again
        return counts

    def _give_up(self, scan: float) -> None:
        self.segments, self._sorted, self._least = [], None, 1.5 * scan
