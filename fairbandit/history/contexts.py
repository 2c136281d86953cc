"""The past contexts of every group in order of round: a persistent, append-only ragged buffer.

An append returns a longer value and does not change the shorter value. Both share memory, to which
entries are only added. The memory has a stamp: the number of rounds in it. An append removes the
stamp before it writes and sets a new stamp afterwards. Only the value whose number of rounds equals
the stamp writes in place; any other value copies its own entries first. An interrupted append
therefore changes no value. The rows that it wrote belong to no value, and the missing stamp
prevents later appends from writing to this memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.files.formats import fitted, within
from fairbandit.history.sorted_segment import SortedSegment

BITS = 36
"""The number of low bits of a key, which hold the round; the higher bits hold the cell number."""

LATEST = (1 << BITS) - 1  # a round after all other rounds; it marks rows without an entry
LEAST_ROOM = 64  # the smallest number of entries for which a group gets room

Ints = NDArray[np.int64]


class Memory:
    """Rows for the contexts of each group, group by group, with one layout for all replicas.

    A group in a replica is a cell, and its number is b·G + g. Entry i of a cell, counted from 0, is
    i rows after the address of the cell. The key of a row combines its cell and the round of its
    context. Keys ascend, so that a binary search over all keys finds the entries up to a given
    round in all cells. Contexts are on the device of the run. Keys and addresses are NumPy arrays
    on the host, because a NumPy call on a few numbers takes less time than a tensor operation.

    Attributes:
        rows: the contexts, (B, R, d).
        keys: the keys of the rows, (B, R).
        most: the number of entries of each group that fit, including forgotten entries, (G,).
        addresses: the row of entry 0 of each group within a replica, even if it is forgotten.
        address: the row of entry 0 of each cell among the rows of all replicas, (B, G).
        base: the key of round 0 of each cell, (B, G).
        stamps: a dictionary with the stamp as its only key; it is empty during an append.
        sorted: a segment of entries, sorted by their scores, which counts keep here for later
            counts. Entries do not change, so that all values that share the memory may use it.
            Nothing else is written into a history.
        refused: counts of a smaller cost are not sorted; see `counting.scores`.
    """

    def __init__(self, like: Tensor, first: Ints, needed: Ints) -> None:
        (b, _, d), g = like.shape, len(first)
        room = np.maximum(2 * (needed - first), LEAST_ROOM)
        length, start = int(room.sum()), room.cumsum() - room
        self.most, self.addresses = first + room, (start - first).tolist()
        self.address = np.arange(b)[:, None] * length + (start - first)
        self.base = np.arange(b * g).reshape(b, g) << BITS
        self.keys = np.repeat(self.base + LATEST, room, axis=1)
        self.rows = like.new_zeros(b, length, d)
        self.stamps = dict[int, bool]()
        self.sorted: SortedSegment | None = None
        self.refused = 0.0


class Contexts(NamedTuple):
    """The contexts of rounds 1 … `rounds`, in B replicas.

    Attributes:
        rounds: the number of rounds that were appended.
        max_contexts: the number of last contexts of each group that count; None counts all
            contexts. If it is set, memory does not grow with the rounds.
        forgotten: the number of first rounds that are forgotten.
        first: the number of first entries of each group that are forgotten, (G,).
        total: the number of entries that each group has had, (B, G).
        memory: the entries.
    """

    rounds: int
    max_contexts: int | None
    forgotten: int
    first: Ints
    total: Ints
    memory: Memory

    @classmethod
    def empty(cls, like: Tensor, groups: int, max_contexts: int | None = None) -> Contexts:
        """A value without contexts; `like` (B, 0, d) fixes sizes, dtype and device."""
        total = np.zeros((len(like), groups), np.int64)
        memory = Memory(like, total[0], total[0])
        return cls(0, max_contexts, 0, total[0], total, memory)

    def restored(self, state: Mapping[str, Any]) -> Contexts:
        """The value with a given `state`; raises ValueError if it does not fit this value."""
        empty = self.empty(self.memory.rows[:, :0], self.groups, self.max_contexts)
        read = fitted(state, empty.state())
        keys, rounds = read["keys"].numpy(force=True), read["rounds"]
        groups, came = keys >> BITS, keys & LATEST
        here = within(read["keys"], -1, (self.groups << BITS) - 1)
        if not here or not (came[keys >= 0] - 1 < rounds).all():
            raise ValueError("contexts do not match the rounds and groups of the state")
        value = empty._with(read["contexts"], groups, came, rounds)
        return value._replace(forgotten=read["forgotten"])

    def state(self) -> dict[str, Any]:
        """Everything that later rounds can read, as plain tensors and numbers."""
        keys = self.memory.keys - self.memory.base[:, :1]
        groups = keys >> BITS
        number = np.arange(keys.shape[1]) - np.array(self.memory.addresses, np.int64)[groups]
        gone = (keys & LATEST > self.rounds) | (number < self.first[groups])
        kept = torch.from_numpy(np.flatnonzero(~gone.all(0))).to(self.memory.rows.device)
        keys[gone] = -1
        return {
            "contexts": self.memory.rows.index_select(1, kept),
            "keys": torch.from_numpy(keys).to(kept.device).index_select(1, kept),
            "rounds": self.rounds,
            "forgotten": self.forgotten,
        }

    @property
    def groups(self) -> int:
        """G."""
        return self.total.shape[1]

    def append(self, contexts: Tensor, groups: Tensor) -> Contexts:
        """The value with the pools of the next N rounds, which are copied."""
        b, n, k = groups.shape
        came = np.arange(self.rounds + 1, self.rounds + n + 1).repeat(k)
        host = groups.numpy(force=True).reshape(b, n * k)
        return self._with(contexts, host, came, self.rounds + n)

    def forget(self, rounds: int) -> Contexts:
        """The value without the first rounds, which no later window may include.

        All rounds so far must be decided. If `max_contexts` is m, contexts before the last m of
        each group are forgotten, too. A later append frees their memory.
        """
        if rounds <= self.forgotten and self.max_contexts is None:
            return self
        rounds = max(rounds, self.forgotten)
        gone = self.up_to(np.array([min(rounds, self.rounds)]))[:, 0]
        if self.max_contexts is not None:
            gone = np.maximum(gone, self.total - self.max_contexts)
        return self._replace(forgotten=rounds, first=np.maximum(self.first, gone.min(0)))

    def grow(self, groups: int) -> Contexts:
        """The value with room for new groups; `groups` is the new G."""
        more = groups - self.groups
        total, first = np.pad(self.total, ((0, 0), (0, more))), np.pad(self.first, (0, more))
        memory = self._copied(first, total.max(0))
        memory.stamps[self.rounds] = True
        return self._replace(total=total, first=first, memory=memory)

    def up_to(self, rounds: Ints) -> Ints:
        """The number of entries of each group up to the end of rounds (…, N): (…, B, N, G).

        Forgotten entries count, too. For a round before all kept entries of a group, the result is
        the number of forgotten entries of the group, which may be too large.
        """
        memory = self.memory
        wanted = memory.base[:, None] + rounds[..., None, :, None]
        row = memory.keys.ravel().searchsorted(wanted, side="right")
        return row - memory.address[:, None]

    def entries(self, group: int, low: int, high: int) -> Tensor:
        """Entries low … high − 1 of a group, (B, L, d); arbitrary rows if a replica has fewer."""
        address = self.memory.addresses[group]
        return self.memory.rows.narrow(1, address + low, high - low)

    def rounds_of(self, group: int, low: int, high: int) -> Tensor:
        """The rounds of entries low … high − 1 of a group, (B, L) int64."""
        address = self.memory.addresses[group]
        keys = self.memory.keys[:, address + low : address + high] & LATEST
        return torch.from_numpy(keys).to(self.memory.rows.device)

    def _with(self, contexts: Tensor, groups: Ints, came: Ints, rounds: int) -> Contexts:
        """The value with M contexts of each replica, whose groups are (B, M), up to a round.

        A group of −1 is an empty place. `came` holds the rounds of the contexts, (B, M), or (M,)
        if all replicas have the same.
        """
        (b, m), g = groups.shape, self.total.shape[1]
        (at,) = (groups.ravel() >= 0).nonzero()
        cell = groups.ravel()[at]
        if b > 1:
            cell = cell + at // m * g
        more = np.bincount(cell, minlength=b * g)
        total, memory = self.total + more.reshape(b, g), self.memory
        if (total > memory.most).any() or not memory.stamps.pop(self.rounds, False):
            held = memory.sorted
            memory = self._copied(self.first, total.max(0))
            if held is not None and held.within(self.first, self.total.min(0)):
                memory.sorted = held
        row = (memory.address + self.total).ravel()[cell] + occurrences(cell)
        contexts = contexts.reshape(-1, contexts.shape[-1])
        if len(at) < b * m:
            contexts = contexts[torch.from_numpy(at).to(contexts.device)]
        rows = memory.rows.view(-1, contexts.shape[1])
        rows.index_copy_(0, torch.from_numpy(row).to(rows.device), contexts)
        came = came.ravel()[at % came.size]
        memory.keys.ravel()[row] = memory.base.ravel()[cell] + came
        memory.stamps[rounds] = True
        return Contexts(rounds, self.max_contexts, self.forgotten, self.first, total, memory)

    def _copied(self, first: Ints, needed: Ints) -> Memory:
        memory, old = Memory(self.memory.rows, first, needed), self.memory
        for group, high in enumerate(self.total.max(0).tolist()):
            low, start = int(first[group]), memory.addresses[group]
            came = old.keys[:, old.addresses[group] + low : old.addresses[group] + high] & LATEST
            came[came > self.rounds] = LATEST  # these entries belong to a longer value
            memory.keys[:, start + low : start + high] = memory.base[:, group, None] + came
            memory.rows[:, start + low : start + high] = self.entries(group, low, high)
        return memory


def occurrences(keys: Ints) -> Ints:
    """The number of earlier occurrences of each key, (M,)."""
    order = keys.argsort(kind="stable")
    ordered, number = keys[order], np.empty(len(keys), np.int64)
    number[order] = np.arange(len(keys)) - ordered.searchsorted(ordered)
    return number
