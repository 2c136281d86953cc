"""The past contexts of every group, in order of round, as a value: an append gives a longer one.

Values share memory, to which entries are only ever added. The memory has a stamp: the number of
rounds in it. An append takes the stamp away before it writes and leaves a new one afterwards, and
only the value whose rounds are on the stamp writes in place; any other one copies its own entries
first. So whoever is interrupted, wherever that is, has changed no value: the rows that were written
belong to none, and without the stamp nobody writes over them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.counting.sorted_segment import SortedSegment

STEP = 1 << 40
"""The difference between the keys of one round in two groups."""

LATEST = STEP - 1
"""Later than every round that is appended; marks rows that hold none."""

LEAST_ROOM = 64
"""There is room for at least so many entries of each group."""


class Entries(NamedTuple):
    """Consecutive entries of one group.

    Attributes:
        contexts: (B, L, d); 0 where a replica has fewer entries than another one.
        rounds: when each came, (B, L) int64; `LATEST` where there is none.
    """

    contexts: Tensor
    rounds: Tensor


class Memory:
    """Rows for the contexts of each group, group by group, the same numbers for all replicas.

    Entry i of a group (from 0) is i rows after the group's address. Every row has a key: `STEP`
    times the group, plus the round of its context. Keys ascend along the rows of a replica, so that
    one search finds the entries up to a given round in all groups. The last row takes the contexts
    of empty places.

    Args:
        like: a tensor (B, d) that fixes sizes, dtype and device.
        kept: the entries of each group that are there from the start.
        first: the number of the first of them, for each group.
        needed: the number of entries of each group for which there must be room.
        rounds: the number of rounds that the entries are of.

    Attributes:
        rows: the contexts, (B, R, d).
        keys: (B, R) int64.
        first: the argument.
        most: how many entries of each group fit, those before `first` included.
        addresses: the row of entry 0 of each group, kept or not.
        address: the same as a tensor, (G,) int64.
        base: the key of round 0 of each group, (G,) int64.
        stamps: has the number of rounds in the memory as its key, unless an append is writing.
        sorted: some entries sorted by their scores. It is replaced by one assignment, and since
            entries do not change, it is right for all values that share the memory.
        not_worth_sorting: a scan that costs no more than this is not replaced by sorting.
    """

    def __init__(
        self,
        like: Tensor,
        kept: Sequence[Entries],
        first: Sequence[int],
        needed: Sequence[int],
        rounds: int,
    ) -> None:
        sizes = zip(first, needed, strict=True)
        rooms = [max(LEAST_ROOM, 2 * (most - low)) for low, most in sizes]
        (b, d), length = like.shape, sum(rooms) + 1
        self.rows = like.new_zeros(b, length, d)
        self.keys = torch.full((b, length), len(rooms) * STEP, device=like.device)
        self.first, self.addresses, start = list(first), list[int](), 0
        for group, (room, entries) in enumerate(zip(rooms, kept, strict=True)):
            end = start + entries.rounds.shape[1]
            self.rows[:, start:end] = entries.contexts
            self.keys[:, start:end] = entries.rounds + group * STEP
            self.keys[:, end : start + room] = group * STEP + LATEST
            self.addresses.append(start - first[group])
            start += room
        self.most = [low + room for low, room in zip(first, rooms, strict=True)]
        self.address = torch.tensor(self.addresses, dtype=torch.int64, device=like.device)
        self.base = torch.arange(len(rooms), device=like.device) * STEP
        self.stamps = {rounds: True}
        self.sorted: SortedSegment | None = None
        self.not_worth_sorting = 0.0

    def write(self, contexts: Tensor, groups: Tensor, entries: Tensor, rounds: Tensor) -> None:
        """Writes M contexts of each replica.

        Args:
            contexts: (B, M, d).
            groups: (B or 1, M) int64, −1 for none.
            entries: the number of each among those of its group, (B or 1, M) int64.
            rounds: (M,) int64.
        """
        (b, length, d), absent = self.rows.shape, groups < 0
        own = groups.clamp(min=0)
        row = self.address[own].add_(entries).masked_fill_(absent, length - 1)
        key = torch.add(rounds, own, alpha=STEP).masked_fill_(absent, len(self.most) * STEP)
        if b > 1:
            row = row + torch.arange(b, device=row.device)[:, None] * length
            key = key.expand(b, -1)
        self.rows.view(-1, d).index_copy_(0, row.flatten(), contexts.reshape(-1, d))
        self.keys.view(-1).index_copy_(0, row.flatten(), key.reshape(-1))


@dataclass(frozen=True, eq=False)
class Contexts:
    """The contexts of rounds 1 … `rounds`, in B replicas.

    Attributes:
        rounds: how many rounds were appended.
        largest: the largest |x| in each feature of all contexts so far, (B, d).
        max_contexts: how many of its last contexts count of each group; None counts all. If it is
            set, memory does not grow with the rounds.
        forgotten: how many first rounds are forgotten.
        total: how many entries each group has had, (B, G) int64; (1, G) if all replicas are alike,
            which means that they had contexts of the same groups in every round.
        settled: `total` when rounds were last forgotten.
        memory: the entries.
    """

    rounds: int
    largest: Tensor
    max_contexts: int | None
    forgotten: int
    total: Tensor
    settled: Tensor
    memory: Memory

    @classmethod
    def empty(cls, like: Tensor, groups: int, max_contexts: int | None = None) -> Contexts:
        """No contexts.

        Args:
            like: a tensor (B, 0, d) that fixes sizes, dtype and device.
            groups: G.
            max_contexts: how many of its last contexts count of each group; None counts all.
        """
        b, _, d = like.shape
        none = torch.zeros(b, 0, dtype=torch.int64, device=like.device)
        state = {
            "contexts": [like] * groups,
            "rounds": [none] * groups,
            "largest": like.new_zeros(b, d),
        }
        return cls.restored({**state, "appended": 0, "forgotten": 0}, max_contexts)

    @classmethod
    def restored(cls, state: Mapping[str, Any], max_contexts: int | None = None) -> Contexts:
        """The value whose `state` this is.

        Args:
            state: what `state` returned.
            max_contexts: as for `empty`.
        """
        kept, largest = list(map(Entries, state["contexts"], state["rounds"])), state["largest"]
        total = torch.zeros(len(largest), len(kept), dtype=torch.int64, device=largest.device)
        for group, (_, rounds) in enumerate(kept):
            total[:, group] = (rounds != LATEST).sum(1)
        if all(bool((rounds == rounds[:1]).all()) for _, rounds in kept):
            total = total[:1]
        needed = total.amax(0).tolist()
        memory = Memory(largest, kept, [0] * len(kept), needed, state["appended"])
        return cls(
            rounds=state["appended"],
            largest=largest,
            max_contexts=max_contexts,
            forgotten=state["forgotten"],
            total=total,
            settled=torch.zeros_like(total),
            memory=memory,
        )

    def state(self) -> dict[str, Any]:
        """All that later rounds can read, as plain tensors and numbers."""
        _, kept = self._kept()
        return {
            "contexts": [entries.contexts.clone() for entries in kept],
            "rounds": [entries.rounds.clone() for entries in kept],
            "appended": self.rounds,
            "forgotten": self.forgotten,
            "largest": self.largest,
        }

    @property
    def groups(self) -> int:
        """G."""
        return self.total.shape[1]

    @property
    def alike(self) -> bool:
        """Whether all replicas had contexts of the same groups in every round."""
        return self.total.shape[0] == 1

    def append(self, contexts: Tensor, groups: Tensor) -> Contexts:
        """The value with the pools of the next N rounds; this one stays as it is.

        Args:
            contexts: (B, N, K, d), copied.
            groups: (B, N, K) int64, −1 for an empty place.
        """
        b, n, k = groups.shape
        sizes = torch.where(groups[..., None] < 0, 0, contexts.abs()).amax((1, 2))
        groups, total = groups.flatten(1), self.total
        if self.alike and (b == 1 or bool((groups == groups[:1]).all())):
            groups = groups[:1]  # one replica stands for all
        else:
            total = total.expand(b, -1)
        own = groups.clamp(min=0)
        entries = occurrences(groups) + total.gather(1, own)
        total = total.scatter_add(1, own, (groups >= 0).to(total.dtype))
        needed = total.amax(0).tolist() if len(total) > 1 else total[0].tolist()
        memory, rounds = self.memory, self.rounds + n
        if any(map(int.__gt__, needed, memory.most)) or not memory.stamps.pop(self.rounds, False):
            memory = self._copied(needed)
        times = torch.arange(self.rounds + 1, rounds + 1, device=groups.device)
        memory.write(contexts.flatten(1, 2), groups, entries, times.repeat_interleave(k))
        memory.stamps = {rounds: True}
        largest = torch.maximum(self.largest, sizes)
        return replace(self, rounds=rounds, largest=largest, total=total, memory=memory)

    def forget(self, rounds: int) -> Contexts:
        """The value without the first rounds, which no later window has.

        All rounds so far must be decided: if `max_contexts` is m, what comes before the last m
        contexts of each group is forgotten too. Memory is given back at a later append.
        """
        return replace(self, forgotten=max(self.forgotten, rounds), settled=self.total)

    def grow(self, groups: int) -> Contexts:
        """The value with room for new groups, G of them in all."""
        more = (0, groups - self.groups)
        total, settled = (
            torch.nn.functional.pad(part, more) for part in (self.total, self.settled)
        )
        first, kept = self._kept()
        none = Entries(self.memory.rows[:, :0], self.memory.keys[:, :0])
        kept, first = [*kept, *[none] * more[1]], [*first, *[0] * more[1]]
        memory = Memory(self.largest, kept, first, total.amax(0).tolist(), self.rounds)
        return replace(self, total=total, settled=settled, memory=memory)

    def up_to(self, rounds: Tensor) -> Tensor:
        """How many entries each group had after given rounds, (W, N): (W, B or 1, N, G) int64.

        Entries that are forgotten count too, but for rounds in which all kept ones were to come
        this is no less than the number of those forgotten.
        """
        memory, (w, n), g = self.memory, rounds.shape, self.groups
        wanted = rounds[..., None] + memory.base
        if self.alike:
            row = torch.searchsorted(memory.keys[0], wanted, right=True)[:, None]
        else:
            every = wanted.view(1, -1).expand(len(memory.keys), -1).contiguous()
            row = torch.searchsorted(memory.keys, every, right=True)
            row = row.view(-1, w, n, g).transpose(0, 1)
        return row - memory.address

    def entries(self, group: int, low: int, high: int) -> Tensor:
        """Entries low … high − 1 of a group, (B, L, d); any where a replica has fewer."""
        address = self.memory.addresses[group]
        return self.memory.rows[:, address + low : address + high]

    def rounds_of(self, group: int, low: int, high: int) -> Tensor:
        """The rounds of entries low … high − 1 of a group, (B, L) int64."""
        address = self.memory.addresses[group]
        return self.memory.keys[:, address + low : address + high] - group * STEP

    def _kept(self) -> tuple[list[int], list[Entries]]:
        """The first entry of each group that is kept, and these entries."""
        gone = self.up_to(self.total.new_tensor([[min(self.forgotten, self.rounds)]]))[0, :, 0]
        if self.max_contexts is not None:
            gone = torch.maximum(gone, self.settled - self.max_contexts)
        first, last = gone.amin(0).tolist(), self.total.amax(0).tolist()
        kept = [
            Entries(self.entries(*limits), self.rounds_of(*limits))
            for limits in zip(range(self.groups), first, last, strict=True)
        ]
        for group, (contexts, rounds) in enumerate(kept if not self.alike else []):
            numbers = torch.arange(first[group], last[group], device=rounds.device)
            missing = numbers >= self.total[:, group, None]
            contexts = contexts.masked_fill(missing[..., None], 0)
            kept[group] = Entries(contexts, rounds.masked_fill(missing, LATEST))
        return first, kept

    def _copied(self, needed: Sequence[int]) -> Memory:
        """New memory with what is kept, and room for so many entries of each group in all."""
        first, kept = self._kept()
        memory, old = Memory(self.largest, kept, first, needed, self.rounds), self.memory
        held = old.sorted
        if held is not None and held.within(first, self.total.amin(0).tolist()):
            memory.sorted, memory.not_worth_sorting = held, old.not_worth_sorting
        return memory


def occurrences(keys: Tensor) -> Tensor:
    """How often each key occurs before it in its row: (B, M) int64 of (B, M) int64."""
    if keys.shape[1] == 1:
        return torch.zeros_like(keys)
    ordered, order = keys.sort(dim=1, stable=True)
    number = torch.arange(keys.shape[1], device=keys.device) - torch.searchsorted(ordered, ordered)
    return torch.empty_like(keys).scatter_(1, order, number)
