"""The sorted segment: exact counts under models that drift slowly, without a scan of all contexts.

A segment of each group's contexts is sorted once by its scores under a reference model θ₀. Under a
later model θ₀ + Δ a score moves by ⟨x, Δ⟩ = ⟨m, Δ⟩ + ⟨x − m, Δ⟩. By the inequality of Cauchy and
Schwarz the second term is at most ‖(x − m)/s‖·‖s·Δ‖. Here m and s are the mean and the standard
deviation of each feature in the group, and the largest ‖(x − m)/s‖ is the group's radius. Add
⟨m, Δ⟩ to the reference score of a context. If the sum is below a value by more than the bound, the
context counts; if the sum is above the value by more than the bound, it does not count. Only the
contexts in between are scored again.

Reference: Hazy maintains its views by the same idea: Koc and Ré, Incrementally Maintaining
Classification using an RDBMS, VLDB 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SLACK = 1e-11  # the allowance for rounding in each score, relative to the largest possible ‖x‖·‖θ‖
PIECE = 1 << 13  # the number of contexts compared with their mean at a time; they stay in cache


class SortedSegment:
    """Consecutive entries of each group, sorted by their scores under a reference model θ₀, (B, d).

    The entries of all replicas and groups are in a single table. The key of an entry is its score,
    scaled to [0, 1], plus twice the number b·G + g of its cell, so that a binary search over all
    keys works for all cells.

    Attributes:
        start, stop: entries start … stop − 1 of each group are sorted.
        ends: `start` and `stop` as an array, (2, G).
        length: the number of sorted entries in each replica.
        exact: whether the bounds are finite; they are not if contexts are too large.
        spent: the cost of counts since sorting, in the unit of `counting.scores`.
        saved: the cost of the same counts without the segment, less the cost of searching it.
    """

    def __init__(self, contexts: Sequence[Tensor], start: Sequence[int], theta: Tensor) -> None:
        (b, d), g = theta.shape, len(contexts)
        self.start = list(start)
        self.stop = [low + x.shape[1] for low, x in zip(start, contexts, strict=True)]
        self.ends = np.array([self.start, self.stop])
        self.length = sum(self.stop) - sum(self.start)
        self.spent = self.saved = 0.0
        self._mean, self._spread = theta.new_zeros(2, b, g, d)  # in units of keys
        self._scale = theta.new_ones(b, g)
        least, radius, off = theta.new_zeros(3, b, g)
        number = 2.0 * torch.arange(b * g, dtype=theta.dtype, device=theta.device)
        keys, table = theta.new_empty(b, self.length), theta.new_empty(b, self.length, d)
        stop = 0
        for group, x in enumerate(contexts):
            if not x.shape[1]:
                continue
            mean, pieces = x.mean(1, keepdim=True), x.split(PIECE, 1)
            squares = sum((piece - mean).square_().sum(1) for piece in pieces)
            spread = (squares / x.shape[1]).sqrt_()
            spread += 1e-6 * spread.amax(1, keepdim=True) + 1e-150  # avoids zeros
            weights = spread.square().reciprocal_()[..., None]
            norms = [((piece - mean).square_() @ weights).amax((1, 2)) for piece in pieces]
            norm = torch.stack(norms).amax(0).sqrt_()
            # ‖x‖ is at most ‖m‖ + ‖(x − m)/s‖·‖s‖
            size = torch.linalg.vector_norm(torch.cat([mean, spread[:, None]], 1), dim=2)
            slack = SLACK * (size[:, 0] + norm * size[:, 1])
            scores = (x @ theta[..., None])[..., 0]
            low, high = scores.aminmax(dim=1)
            scale = 1 / (high - low).where(high > low, 1.0)
            self._mean[:, group] = mean[:, 0] * scale[:, None]
            self._spread[:, group] = spread * scale[:, None]
            # |score| ≤ ‖x‖(‖θ₀‖ + ‖Δ‖), and ‖Δ‖ is at most ‖s·Δ‖ divided by the smallest s
            radius[:, group] = norm + slack / spread.amin(1)
            off[:, group] = 2 * slack * torch.linalg.vector_norm(theta, dim=1) * scale
            self._scale[:, group], least[:, group] = scale, low * scale
            here = slice(stop, stop := stop + x.shape[1])
            scores = (scores - low[:, None]).mul_(scale[:, None])
            ordered, order = (scores + number.view(b, g, 1)[:, group]).sort(1)
            keys[:, here] = ordered
            for rows, entries, at in zip(table[:, here], x, order, strict=True):
                torch.index_select(entries, 0, at, out=rows)
        self._keys, self._table = keys.flatten(), table.flatten(0, 1)
        self._theta = theta[:, None]
        # From scaled values, these offsets and radii give the keys between which entries are scored
        # again. The next term is the rounding error of two keys.
        off += 4 * torch.finfo(theta.dtype).eps * (2 * b * g + 2)
        least -= number.view(b, g)
        self._starts = torch.stack([least + off, least - off])[..., None]
        self._radii = torch.stack([radius, -radius])[..., None]
        self._limits = torch.searchsorted(self._keys, torch.stack([number - 0.5, number + 1.5]))
        sizes = (self._mean + self._spread).sum(2) + radius + off + least + self._scale
        self.exact = bool(sizes.isfinite().all())

    def within(self, first: NDArray[np.int64], stop: NDArray[np.int64]) -> bool:
        """Whether all entries are among entries first … stop − 1 of their groups, (G,) each."""
        return bool((self.ends[0] >= first).all() and (self.ends[1] <= stop).all())

    def count_le(
        self, groups: Tensor, values: Tensor, of_round: Tensor, theta: Tensor, budget: float
    ) -> tuple[Tensor, int] | None:
        """The exact number of entries of each value's group whose scores are at most the value.

        Args:
            groups, values: (B, N, M) each; counts are arbitrary for NaN.
            of_round: the model of each round, (N,) int64.
            theta: weights of the U linear models, (B, U, d).
            budget: the number of entries that may be scored again.

        Returns:
            Counts, (B, N, M) float64, and the number of entries that were scored again. None if
            that number would exceed the budget.
        """
        (b, u, d), g = theta.shape, len(self.start)
        drift = (theta - self._theta)[:, None]
        spread = torch.linalg.vector_norm(drift * self._spread[:, :, None], dim=3)  # (B, G, U)
        moved = (drift * self._mean[:, :, None]).sum(3)
        shifts = torch.addcmul(self._starts, spread, self._radii).add_(moved)
        cell, frame, model = groups, groups, None
        if b * u > 1:
            replica = torch.arange(b, device=groups.device)[:, None, None]
            cell = groups + replica * g
            frame = cell * u + of_round[:, None]
            model = (replica * u + of_round[:, None]).expand(groups.shape).flatten()
        cell, frame, flat = cell.flatten(), frame.flatten(), values.flatten()
        scaled = flat * self._scale.view(-1).index_select(0, cell)
        keys = scaled - shifts.view(2, -1).index_select(1, frame)
        begin, end = self._limits.index_select(1, cell)
        low, high = torch.searchsorted(self._keys, keys).clamp_(begin, end)
        length, counts = high - low, (low - begin).to(values.dtype)
        again = int(length.sum())
        if again > budget:
            return None
        if again:
            weights = theta.reshape(b * u, d)
            counts += count_segments(self._table, low, length, flat, weights, model)
        return counts.view(values.shape), again


CHUNK = 1 << 17  # the number of features gathered at a time, over all rows; they stay in cache
MOST = 1 << 22  # the number of rows counted at a time, which keeps work memory small


def count_segments(
    table: Tensor,
    begin: Tensor,
    length: Tensor,
    values: Tensor,
    theta: Tensor,
    model: Tensor | None,
) -> Tensor:
    """For each of P segments, the number of its rows whose scores are at most its value, (P,).

    Segments are `length` rows of the table (R, d) from row `begin` on. `model` is the index of each
    segment's model among θ (U, d); None if U is 1. Comparisons with NaN are false.
    """
    stop = length.cumsum(0)
    start = stop - length
    count = int(stop[-1]) if len(stop) else 0
    if count > MOST and len(values) > 1:
        halves = [None] * 2 if model is None else model.chunk(2)
        parts = zip(begin.chunk(2), length.chunk(2), values.chunk(2), halves, strict=True)
        return torch.cat([count_segments(table, *part[:3], theta, part[3]) for part in parts])
    # the segment of each row, and its number in the table, for all rows of all segments
    segments = torch.repeat_interleave(length, output_size=count)
    rows = torch.arange(count, device=begin.device)
    rows += (begin - start).index_select(0, segments)
    size, scores = max(1, CHUNK // table.shape[1]), list[Tensor]()
    for segment, row in zip(segments.split(size), rows.split(size), strict=True):
        contexts = table.index_select(0, row)
        if model is None:
            scores.append(torch.mv(contexts, theta[0]))
        else:
            weights = theta.index_select(0, model.index_select(0, segment))
            scores.append(contexts.mul_(weights).sum(1))
    joined = scores[0] if len(scores) == 1 else torch.cat(scores)
    limits, before = values.index_select(0, segments), values.new_zeros(count + 1)
    torch.le(joined, limits, out=before[1:]).cumsum_(0)
    return before.index_select(0, stop) - before.index_select(0, start)
