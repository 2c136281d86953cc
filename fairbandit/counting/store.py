"""The fast store of past contexts, which counts in whichever way costs least."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fairbandit.counting.buffer import RaggedBuffer
from fairbandit.counting.interface import PastScores, Query, ScoringModel
from fairbandit.counting.scan import Layout, Limits, Reduce, counting, scan, summing
from fairbandit.counting.segments import count_segments
from fairbandit.counting.sorted_segment import Asked, SortedCounts
from fairbandit.errors import FairbanditError

FEW = 64
"""So many values, of all replicas and rounds, or fewer, are counted as segments, not in chunks."""


class ContextStore:
    """Keeps the past contexts of every group, and counts and sums their scores.

    Args:
        empty: a (B, 0, d) tensor that fixes d, the dtype and the device.
        groups: G.
        memory: how many of its last contexts count of each group; None counts all. With a bounded
            memory the store does not grow with the rounds, whatever the windows, but for the
            difference between the replicas' numbers of contexts.

    Attributes:
        groups: G.
        rounds: how many rounds were appended.
    """

    def __init__(self, empty: Tensor, groups: int, memory: int | None = None) -> None:
        self.groups, self._memory, self.rounds = groups, memory, 0
        self._forgotten = 0  # how many first rounds are in no later window
        self._buffer, self._sorted = RaggedBuffer(empty, groups), SortedCounts()

    def append(self, contexts: Tensor, groups: Tensor) -> None:
        """Appends the pools of the next N rounds.

        Args:
            contexts: (B, N, K, d).
            groups: (B, N, K) int64, −1 for an empty place.
        """
        _, n, k = groups.shape
        rounds: Tensor | int = self.rounds + 1
        if n > 1:
            rounds = torch.arange(self.rounds + 1, self.rounds + n + 1, device=groups.device)
            rounds = rounds.repeat_interleave(k)
        self._buffer.append(contexts.flatten(1, 2), groups.flatten(1, 2), rounds)
        self.rounds += n

    def past_scores(self, query: Query, groups: Tensor) -> WindowScores:
        """The past scores that values are compared with.

        Args:
            query: the rounds, their windows and their models.
            groups: the group of each value, (B, N, M) int64, −1 for none.

        Raises:
            FairbanditError: a window of rounds that are forgotten.
        """
        return WindowScores(self._buffer, self._sorted, query, groups, self._windows(query))

    def forget(self, rounds: int) -> None:
        """Forgets the first rounds, which no later window has; all rounds must be decided."""
        self._forgotten = max(self._forgotten, rounds)
        total = self._buffer.total
        gone = self._buffer.up_to(total.new_tensor([[self._forgotten]]))[0]
        if self._memory is not None:
            gone = torch.maximum(gone, total - self._memory)
        self._buffer.forget(self._sorted.keep(gone.amin((0, 1)).tolist()))

    def grow(self, groups: int) -> None:
        """Makes room for new groups, G of them in all."""
        self.groups = groups
        self._buffer.grow(groups)
        self._sorted = SortedCounts()

    def holders(self) -> list[object]:
        """The objects whose attributes hold all contexts.

        Restoring the attributes from before an `append`, a `forget` or a `grow`, and then calling
        `recover`, undoes the change.
        """
        return [self, self._buffer]

    def recover(self) -> None:
        """Repairs the memory after a change was undone or a query failed."""
        self._buffer.recover()
        self._sorted = SortedCounts()

    def state(self) -> dict[str, Any]:
        """All that is kept, as plain tensors and numbers."""
        return {**self._buffer.state(), "appended": self.rounds, "forgotten": self._forgotten}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that `state` gave."""
        self.rounds, self._forgotten = state["appended"], state["forgotten"]
        self._buffer.load_state(state)
        self._sorted = SortedCounts()

    def _windows(self, query: Query) -> Tensor:
        """Start and stop of each window in every group, entries start … stop − 1: (2, B, N, G)."""
        least = int(query.start[0])
        if least < self._forgotten:
            raise FairbanditError(
                f"the window of a round starts at round {least + 1}, and rounds 1 to "
                f"{self._forgotten} are forgotten: the start of a window must never move back"
            )
        if self._memory is None:
            return self._buffer.up_to(torch.stack([query.start, query.stop]))
        first, n = query.first, len(query.start)
        before = torch.arange(first - 1, first + n - 1, device=query.stop.device)
        rounds = torch.stack([query.start, query.stop, before])
        start, stop, now = self._buffer.up_to(rounds).unbind()
        return torch.stack([torch.maximum(start, now - self._memory).minimum(stop), stop])


@dataclass(eq=False)
class WindowScores(PastScores):
    """The past scores in windows of the ragged buffer; see `PastScores`.

    Attributes:
        buffer: the contexts.
        sorted: counts over long windows.
        query: the rounds and their models.
        groups: (B, N, M).
        ends: start and stop of the windows in every group, entries start … stop − 1,
            (2, B, N, G) int64.
    """

    buffer: RaggedBuffer
    sorted: SortedCounts
    query: Query
    groups: Tensor
    ends: Tensor

    def under(self, model: ScoringModel) -> WindowScores:
        """The same contexts, scored by other models, as many as these.

        What does not depend on scores is found once: the windows' ends, counts and layout.
        """
        _ = self._layout
        other = copy(self)
        other.query = self.query._replace(model=model)
        return other

    @cached_property
    def count(self) -> Tensor:
        """See `PastScores`."""
        inside = self._length.gather(2, self._own)
        return inside.masked_fill(self.groups < 0, 0).to(torch.float64)

    def count_le(self, values: Tensor) -> Tensor:
        """See `PastScores`."""
        theta, few = self.query.model.theta, values.numel() <= FEW
        counted = None
        if theta is not None:
            asked = Asked(self._own, values, self.query.of_round, theta)
            counted = self.sorted.count_le(asked, self._limits, self.buffer, chunked=not few)
        segments = [] if counted is None else self.sorted.segments
        if few and theta is not None:
            total = self._gather(values, theta, segments)
        else:
            placed = self._layout.place(values)
            total = self._scan(lambda at: counting(placed[at]), segments)
        total = total if counted is None else total + counted
        return total.masked_fill(self.groups < 0, 0)

    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        """See `PastScores`."""
        placed = [self._layout.place(value) for value in values]
        n, first = len(self.query.start), self.query.first
        rounds = torch.arange(first, first + n, device=self.groups.device, dtype=torch.float64)
        times = self._layout.place(rounds[:, None].expand(self.groups.shape)) if ages else []

        def reduce(at: int) -> Reduce:
            def age(low: int, high: int) -> Tensor:
                came = self.buffer.rounds(self._layout.slots[at].group, low, high)
                return (times[at][..., None] - came[:, None, None]).clamp_(min=1)

            return summing(f, [value[at] for value in placed], age if ages else None)

        return self._scan(reduce, [])

    @cached_property
    def _own(self) -> Tensor:
        """The groups, 0 for none."""
        return self.groups.clamp(min=0)

    @cached_property
    def _length(self) -> Tensor:
        """How many entries each window has in every group, (B, N, G)."""
        start, stop = self.ends.unbind()
        return stop - start

    @cached_property
    def _limits(self) -> list[Limits]:
        ends = (self.ends[:, :1] if self.buffer.alike else self.ends).flatten(1, 2)
        least, greatest = ends.aminmax(dim=1) if ends.shape[1] > 1 else [ends[:, 0]] * 2
        (first, least_stop), (greatest_start, last) = least.tolist(), greatest.tolist()
        return list(map(Limits, first, greatest_start, least_stop, last))

    @cached_property
    def _layout(self) -> Layout:
        same = self.buffer.alike and bool((self.groups == self.groups[:1]).all())
        alike = slice(1) if same else slice(None)
        groups, (start, stop), query = self.groups[alike], self.ends[:, alike], self.query
        return Layout(groups, query.of_round, len(query.model), start, stop, self._limits)

    def _scan(self, reduce: Callable[[int], Reduce], segments: list[tuple[int, int]]) -> Tensor:
        """Sums over the windows minus the segments, (B, N, M), by a chunked scan of each group.

        `reduce` gives what sums for the slots of a number. No segments is an empty list.
        """
        found = []
        for at, slots in enumerate(self._layout.slots):
            segment = segments[slots.group] if segments else (0, 0)
            found.append(scan(self.buffer, self.query.model, slots, reduce(at), segment))
        return self._layout.collect(found).expand(self.groups.shape)

    def _gather(self, values: Tensor, theta: Tensor, segments: list[tuple[int, int]]) -> Tensor:
        """The same as segment counts, where all of a round's values are compared with all groups.

        The windows minus the segments are what lies between the two stops, minus what lies between
        the two starts; either may be negative.
        """
        (b, u, _), g, m = theta.shape, self.ends.shape[3], values.shape[2]
        begin, length, sign = self.ends[:1], self._length[None], None
        if segments:
            held = self.sorted.ends
            begin, more = torch.minimum(self.ends, held), self.ends - held
            length, sign = more.abs(), more.sign()
            sign[0].neg_()
        present = torch.zeros_like(self._length).scatter_(2, self._own, 1)
        model = None
        if b * u > 1 or self.buffer.mask.features is not None:
            every = torch.arange(b * u * g, device=values.device).view(b, u, g)
            of_round = every if u == 1 else every.index_select(1, self.query.of_round)
            model = of_round.expand(begin.shape)
            theta = self.buffer.mask.of_all_groups(theta)
        counts = count_segments(
            self.buffer.table,
            begin + self.buffer.addresses,
            length * present,
            values.unsqueeze(2).expand(*begin.shape, m),
            theta.reshape(-1, theta.shape[-1]),
            model,
        )
        total = counts[0] if sign is None else (counts * sign.unsqueeze(4)).sum(0)
        return total.gather(2, self._own.unsqueeze(2)).squeeze(2)
