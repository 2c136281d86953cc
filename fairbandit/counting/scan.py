"""The chunked scan: sums over windows of each group's past scores, in chunks that stay in cache.

Values are laid out by group and model, with padding, so that the values of a model are compared
together. A chunk of contexts is scored once under every model, for linear models by one matrix
product, and compared with all values of that model. Masks are needed only where windows differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from fairbandit.history.contexts import Contexts, Ints, occurrences

CHUNK = 1 << 18
"""The approximate number of scores in a chunk; four times as many comparisons are made at once."""

MOST = 1 << 22
"""The largest number of scores in a chunk; it keeps work memory small if models are very many."""


Limits = tuple[int, int, int, int]
"""The least and the greatest start, and the least and the greatest stop, of windows in a group."""

Score = Callable[[Tensor, int], Tensor]
"""Scores contexts (B, L, d) of a group under every model: (B, U, L)."""

ChunkSum = Callable[[list[Tensor], list[Tensor], Tensor | None], Tensor]
"""Sums over the L entries of a chunk, for S values of each model: (B, U, S).

The arguments are:

1. the scores of the entries, (B, U, 1, L), and their rounds, (B, 1, 1, L), if they are asked for;
2. tensors with the values, (B, U, S, 1) each, NaN in empty slots;
3. the weight of each entry for each value, (B or 1, U, S, L) float64; None if all weights are 1.
"""


class Windows:
    """The windows of N rounds, and a slot for every value, by group and model.

    If all replicas have the same groups and windows, they share the layout of one replica, b = 1.

    Args:
        contexts: the entries.
        ends: the window of each round in every group, entries start … stop − 1, (2, B, N, G).
        groups: the group of each value, (B, N, M) int64, −1 for none.
        model_of_round: the model of each round, (N,), never decreasing.
        models: U.
    """

    def __init__(
        self, contexts: Contexts, ends: Tensor, groups: Tensor, model_of_round: Ints, models: int
    ) -> None:
        self._contexts, self._shape = contexts, groups.shape
        least, greatest = ends.flatten(1, 2).aminmax(dim=1)  # (2, G) both
        (first, least_stop), (greatest_start, last) = least.tolist(), greatest.tolist()
        self.limits = list(zip(first, greatest_start, least_stop, last, strict=True))
        if all(bool((part == part[:1]).all()) for part in (groups, ends.transpose(0, 1))):
            groups, ends = groups[:1], ends[:, :1]
        g, flat = contexts.groups, groups.flatten(1)
        models_of_values = torch.from_numpy(model_of_round.repeat(groups.shape[2]))
        key = flat * models + models_of_values.to(flat.device)
        replica = torch.arange(len(key), device=key.device)[:, None]
        each = (key + replica * (g + 1) * models).flatten().numpy(force=True)
        number = torch.from_numpy(occurrences(each)).to(key.device).view(key.shape)
        widths = number.new_zeros(g + 1)
        widths.scatter_reduce_(0, flat.flatten() + 1, number.flatten() + 1, "amax")
        self._widths = widths[1:].tolist()
        width = max(self._widths, default=0)
        self._slots = g, models, width
        self._slot = torch.add(number, key, alpha=width).masked_fill_(flat < 0, g * models * width)
        own = groups.clamp(min=0)
        self._ends = [self._place(end.gather(2, own), 0) for end in ends.to(torch.float64)]

    def sum(
        self,
        score: Score,
        chunk_sum: ChunkSum,
        values: Sequence[Tensor],
        segment: Sequence[tuple[int, int]] | None = None,
        *,
        rounds: bool = False,
    ) -> Tensor:
        """Sums over the windows minus sums over a segment of each group, if given: (B, N, M).

        An entry has weight 1 in a window and 0 outside it; in the segment its weight is 1 less.
        With `rounds`, `chunk_sum` takes the rounds of the entries, too. Values of no group get 0.
        """
        b, u = self._shape[0], self._slots[1]
        size = max(1, min(max(64, CHUNK // (b * u)), MOST // (b * u)))
        sums = torch.zeros(b, *self._slots, dtype=torch.float64, device=self._slot.device)
        laid_out = [sums, *self._ends, *(self._place(value, torch.nan) for value in values)]
        for group, width in enumerate(self._widths):
            limits = self.limits[group]
            whole = [part[:, group, :, :width, None] for part in laid_out]
            subtracted = segment[group] if segment else (0, 0)
            for low, high, in_segment in _chunks(limits, subtracted, size) if width else ():
                entries = [score(self._contexts.entries(group, low, high), group).unsqueeze(2)]
                if rounds:
                    entries.append(self._contexts.rounds_of(group, low, high)[:, None, None])
                step = max(1, 4 * CHUNK // (b * u * (high - low)))
                parts = [whole]
                if width > step:
                    parts = list(map(list, zip(*(x.split(step, 2) for x in whole), strict=True)))
                for total, start, stop, *given in parts:
                    weights = _inside(low, high, start, stop, limits)
                    if in_segment and weights is not None:
                        weights.sub_(1)
                    total.squeeze(3).add_(chunk_sum(entries, given, weights))
        sums = torch.nn.functional.pad(sums.flatten(1), (0, 1))
        return sums.gather(1, self._slot.expand(b, -1)).view(self._shape)

    def _place(self, values: Tensor, empty: float) -> Tensor:
        """Values, (b, N, M), in their slots, (b, G, U, S)."""
        b, (g, models, width) = len(values), self._slots
        flat = values.new_full((b, g * models * width + 1), empty)
        flat.scatter_(1, self._slot.expand(b, -1), values.reshape(b, -1))
        return flat[:, :-1].view(b, *self._slots)


def linear_scores(theta: Tensor) -> Score:
    """Scores under linear models of weights (B, U, d)."""
    return lambda contexts, group: torch.bmm(theta, contexts.mT)


def model_scores(function: Callable[[Tensor, Tensor], Tensor]) -> Score:
    """Scores by a function of contexts (B, 1, L, d) and groups (B, 1, L)."""

    def score(contexts: Tensor, group: int) -> Tensor:
        b, length, _ = contexts.shape
        groups = torch.full((b, 1, length), group, device=contexts.device)
        return function(contexts[:, None], groups)

    return score


def count_chunk(entries: list[Tensor], given: list[Tensor], weights: Tensor | None) -> Tensor:
    """Counts scores that are at most the values; see `ChunkSum`."""
    (scores,), (values,) = entries, given
    # floats are several times as fast as booleans, both to make and to add up
    below = values.new_empty(*values.shape[:3], scores.shape[3])
    torch.le(scores, values, out=below)
    return (below if weights is None else below.mul_(weights)).sum(3)


def sum_chunk(f: Callable[..., Tensor]) -> ChunkSum:
    """Sums f(score, *values), or f(score, *values, age) if it takes rounds; see `ChunkSum`.

    Weights must be 0 or 1.
    """

    def chunk_sum(entries: list[Tensor], given: list[Tensor], weights: Tensor | None) -> Tensor:
        past, values = entries[0], given
        if len(entries) > 1:
            *values, now = given
            age = (now - entries[1]).clamp_(min=1)
            past, values = past.expand(age.shape), [*values, age]
        terms = f(past, *values)
        if weights is not None:
            terms = terms.where(weights > 0, 0)
        return terms.sum(3, dtype=torch.float64)

    return chunk_sum


def _inside(low: int, high: int, start: Tensor, stop: Tensor, limits: Limits) -> Tensor | None:
    """1 for entries low … high − 1 in each window and 0 for others; None if all are in all windows.

    Multiplying floats is faster than using booleans.
    """
    _, greatest_start, least_stop, _ = limits
    starts, stops = low < greatest_start, high > least_stop
    if not (starts or stops):
        return None
    entry = torch.arange(low, high, dtype=torch.float64, device=start.device)
    inside = entry.new_ones(*start.shape[:3], high - low)
    if starts:
        torch.ge(entry, start, out=inside)
    if stops:
        inside.mul_(torch.lt(entry, stop))
    return inside


def _chunks(limits: Limits, segment: tuple[int, int], size: int) -> Iterator[tuple[int, int, bool]]:
    """Yields low, high and whether entries low … high − 1 are in the segment; all are, or none."""
    first, greatest_start, least_stop, last = limits
    start, stop = segment if segment[0] < segment[1] else (first, first)
    for low, high in pairwise(sorted({*limits, start, stop})):
        in_segment = start <= low < stop
        in_all = greatest_start <= low < least_stop
        in_none = not first <= low < last
        if in_all if in_segment else in_none:
            continue
        step = -(-(high - low) // -(-(high - low) // size))
        for begin in range(low, high, step):
            yield begin, min(begin + step, high), in_segment
