"""The past contexts of every group, in order of round, as a value: an append gives a longer one.

Values share memory, to which entries are only ever added. The memory has a stamp: the number of
rounds in it. An append takes the stamp away before it writes and leaves a new one afterwards, and
only the value whose rounds are on the stamp writes in place; any other one copies its own entries
first. So whoever is interrupted, wherever that is, has changed no value: the rows that were written
belong to none, and without the stamp nobody writes over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairbandit.counting.sorted_segment import SortedSegment

BITS = 40
"""The bits of a key that hold the round; the group is above them."""

LATEST = (1 << BITS) - 1
"""Later than every round that is appended; marks rows that hold none."""

POSITIVE = (1 << 62) - 1
"""Makes the negative keys of empty places higher than all others."""

FEW = 64
"""So few new entries are numbered by a loop."""

LEAST_ROOM = 64
"""There is room for at least so many entries of each group."""


class Memory:
    """Rows for the contexts of each group, group by group, the same numbers for all replicas.

    Entry i of a group (from 0) is i rows after the group's address. The key of a row is its group
    and the round of its context. Keys ascend along the rows of a replica, so that one search finds
    the entries up to a given round in all groups. The last row takes the contexts of empty places.

    Args:
        like: a tensor (B, d) that fixes sizes, dtype and device.
        first: how many entries of each group are forgotten, (G,) int64.
        needed: for how many there must be room, those forgotten included, (G,) int64.

    Attributes:
        rows: the contexts, (B, R, d).
        keys: (B, R) int64.
        most: for how many entries of each group there is room, as `needed`.
        address: the row of entry 0 of each group, forgotten or not, (G,) int64.
        addresses: the same as a list.
        base: the key of round 0 of each group, (G,) int64.
        stamps: has the number of rounds in the memory as its key, unless an append is writing.
        sorted: some entries sorted by their scores. It is replaced by one assignment, and since
            entries do not change, it is right for all values that share the memory.
        not_worth_sorting: a scan that costs no more than this is not replaced by sorting.
    """

    def __init__(self, like: Tensor, first: Tensor, needed: Tensor) -> None:
        (b, d), g = like.shape, len(first)
        room = (2 * (needed - first)).clamp(min=LEAST_ROOM)
        start, length = room.cumsum(0) - room, int(room.sum()) + 1
        self.most, self.address = first + room, start - first
        self.addresses = self.address.tolist()
        self.base = torch.arange(g, device=like.device) << BITS
        keys = pad(self.base.repeat_interleave(room) + LATEST, (0, 1), value=POSITIVE)
        self.keys, self.rows = keys.repeat(b, 1), like.new_zeros(b, length, d)
        self.stamps = dict[int, bool]()
        self.sorted: SortedSegment | None = None
        self.not_worth_sorting = 0.0

    def write(self, contexts: Tensor, keys: Tensor, numbers: Tensor) -> None:
        """Writes M contexts of each replica, (B, M, d).

        Args:
            contexts: (B, M, d).
            keys: (B, M) int64; those below 0 are left out.
            numbers: the number of each among the entries of its group, from 0, as `keys`.
        """
        b, length, d = self.rows.shape
        row = (self.address[keys >> BITS] + numbers).masked_fill_(keys < 0, length - 1)
        if b > 1:
            row += torch.arange(b, device=row.device)[:, None] * length
        row = row.flatten()
        self.rows.view(-1, d).index_copy_(0, row, contexts.reshape(-1, d))
        self.keys.view(-1).index_copy_(0, row, (keys & POSITIVE).flatten())


class Contexts(NamedTuple):
    """The contexts of rounds 1 … `rounds`, in B replicas.

    Attributes:
        rounds: how many rounds were appended.
        largest: the largest |x| in each feature of all contexts up to a round, (B, L, d): the last
            entry is up to the last round, the one before up to the round before, and so on.
        max_contexts: how many of its last contexts count of each group; None counts all. If it is
            set, memory does not grow with the rounds.
        forgotten: how many first rounds are forgotten.
        first: how many first entries of each group are forgotten, (G,) int64.
        total: how many entries each group has had, (B, G) int64.
        memory: the entries.
    """

    rounds: int
    largest: Tensor
    max_contexts: int | None
    forgotten: int
    first: Tensor
    total: Tensor
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
        total = torch.zeros(b, groups, dtype=torch.int64, device=like.device)
        largest, first = like.new_zeros(b, 1, d), total[0]
        return cls(0, largest, max_contexts, 0, first, total, Memory(largest[:, 0], first, first))

    @classmethod
    def restored(cls, state: Mapping[str, Any], max_contexts: int | None = None) -> Contexts:
        """The value whose `state` this is; `max_contexts` is as for `empty`."""
        empty = cls.empty(state["contexts"][:, :0], state["group_count"], max_contexts)
        value = empty._with(state["contexts"], state["keys"], state["rounds"], state["largest"])
        return value._replace(forgotten=state["forgotten"])

    def state(self) -> dict[str, Any]:
        """All that later rounds can read, as plain tensors and numbers."""
        keys = self.memory.keys[:, :-1]
        groups = keys >> BITS
        number = torch.arange(keys.shape[1], device=keys.device) - self.memory.address[groups]
        gone = (keys & LATEST > self.rounds) | (number < self.first[groups])
        keys = keys.masked_fill(gone, -1)
        some = (keys >= 0).any(0)
        return {
            "contexts": self.memory.rows[:, :-1][:, some],
            "keys": keys[:, some],
            "group_count": self.groups,
            "rounds": self.rounds,
            "forgotten": self.forgotten,
            "largest": self.largest[:, -1:],
        }

    @property
    def groups(self) -> int:
        """G."""
        return self.total.shape[1]

    def append(self, contexts: Tensor, groups: Tensor) -> Contexts:
        """The value with the pools of the next N rounds; this one stays as it is.

        Args:
            contexts: (B, N, K, d), copied.
            groups: (B, N, K) int64, −1 for an empty place.
        """
        rounds = self.rounds + groups.shape[1]
        sizes = contexts.abs()
        if bool((empty := groups < 0).any()):
            sizes.masked_fill_(empty[..., None], 0)
        came = torch.arange(self.rounds + 1, rounds + 1, device=groups.device)[:, None]
        keys = torch.add(came, groups, alpha=1 << BITS)
        largest = torch.cat([self.largest[:, -1:], sizes.amax(2)], 1).cummax(1).values
        return self._with(contexts.flatten(1, 2), keys.flatten(1), rounds, largest)

    def largest_before(self, first: int, count: int) -> Tensor:
        """The largest |x| in each feature before each of some consecutive rounds, (B, count, d)."""
        at = self.largest.shape[1] - 1 - (self.rounds + 1 - first)
        return self.largest[:, at : at + count]

    def forget(self, rounds: int) -> Contexts:
        """The value without the first rounds, which no later window has.

        All rounds so far must be decided: if `max_contexts` is m, what comes before the last m
        contexts of each group is forgotten too. Memory is given back at a later append.
        """
        rounds = max(rounds, self.forgotten)
        gone = self.up_to(self.total.new_tensor([[min(rounds, self.rounds)]]))[0, :, 0]
        if self.max_contexts is not None:
            gone = torch.maximum(gone, self.total - self.max_contexts)
        return self._replace(forgotten=rounds, first=torch.maximum(self.first, gone.amin(0)))

    def grow(self, groups: int) -> Contexts:
        """The value with room for new groups, G of them in all."""
        more = 0, groups - self.groups
        total, first = pad(self.total, more), pad(self.first, more)
        memory = self._copied(first, total.amax(0))
        memory.stamps[self.rounds] = True
        return self._replace(total=total, first=first, memory=memory)

    def up_to(self, rounds: Tensor) -> Tensor:
        """How many entries each group had after given rounds, (W, N): (W, B, N, G) int64.

        Entries that are forgotten count too, but for rounds in which all kept ones were to come
        this is no less than the number of those forgotten.
        """
        memory, (w, n) = self.memory, rounds.shape
        b, g = self.total.shape
        wanted = (rounds[..., None] + memory.base).view(1, -1).expand(b, -1).contiguous()
        row = torch.searchsorted(memory.keys, wanted, right=True)
        return (row.view(b, w, n, g) - memory.address).transpose(0, 1)

    def entries(self, group: int, low: int, high: int) -> Tensor:
        """Entries low … high − 1 of a group, (B, L, d); any where a replica has fewer."""
        address = self.memory.addresses[group]
        return self.memory.rows[:, address + low : address + high]

    def rounds_of(self, group: int, low: int, high: int) -> Tensor:
        """The rounds of entries low … high − 1 of a group, (B, L) int64."""
        address = self.memory.addresses[group]
        return self.memory.keys[:, address + low : address + high] & LATEST

    def _with(self, contexts: Tensor, keys: Tensor, rounds: int, largest: Tensor) -> Contexts:
        """The value with M more contexts, (B, M, d), of the given keys, up to a round."""
        number, total = numbered(keys >> BITS, self.total)
        memory = self.memory
        if bool((total > memory.most).any()) or not memory.stamps.pop(self.rounds, False):
            held = memory.sorted
            memory = self._copied(self.first, total.amax(0))
            if held is not None and held.within(self.first, self.total.amin(0)):
                memory.sorted = held
        memory.write(contexts, keys, number)
        memory.stamps[rounds] = True
        return self._replace(rounds=rounds, largest=largest, total=total, memory=memory)

    def _copied(self, first: Tensor, needed: Tensor) -> Memory:
        """New memory with what is kept, and room for so many entries of each group in all."""
        memory, old = Memory(self.largest[:, 0], first, needed), self.memory
        for group, high in enumerate(self.total.amax(0).tolist()):
            low, start = int(first[group]), memory.addresses[group]
            keys = old.keys[:, old.addresses[group] + low : old.addresses[group] + high]
            none = keys & LATEST > self.rounds  # of a longer value
            memory.rows[:, start + low : start + high] = self.entries(group, low, high)
            empty = (group << BITS) + LATEST
            memory.keys[:, start + low : start + high] = keys.masked_fill(none, empty)
        return memory


def numbered(groups: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """The number of each entry in its group, (B, M), after `total` others, and the new totals.

    Groups are (B, M) int64, −1 for none, and totals (B, G).
    """
    if groups.numel() <= FEW:  # a loop takes less than the tensors that replace it
        numbers, totals = groups.tolist(), total.tolist()
        for own, row in zip(totals, numbers, strict=True):
            for place, group in enumerate(row):
                row[place] = own[group]
                own[group] += group >= 0
        return groups.new_tensor(numbers), total.new_tensor(totals)
    own, some = groups.clamp(min=0), (groups >= 0).to(torch.int64)
    return occurrences(groups) + total.gather(1, own), total.scatter_add(1, own, some)


def occurrences(keys: Tensor) -> Tensor:
    """How often each key occurs before it in its row: (B, M) int64 of (B, M) int64."""
    if len(keys) > 1 and bool((keys == keys[:1]).all()):
        return occurrences(keys[:1]).expand_as(keys)
    ordered, order = keys.sort(dim=1, stable=True)
    number = torch.arange(keys.shape[1], device=keys.device) - torch.searchsorted(ordered, ordered)
    return torch.empty_like(keys).scatter_(1, order, number)
