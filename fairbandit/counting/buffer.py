"""The ragged buffer: the past contexts of every group, in order of round, in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add, gt
from typing import Any

import torch
from torch import Tensor

from fairbandit.counting.mask import FeatureMask
from fairbandit.maths.buffers import fresh

SPARE = 1 << 16
"""Room for this many rows, of all replicas together, is never given back."""

LATEST = (1 << 40) - 1
"""Later than every round that is appended; marks rows that hold none."""


class RaggedBuffer:
    """One growing sequence of contexts for each replica and group; its first entries may go.

    Entry i of a group (from 0) lies i rows after the group's address. Where a replica has fewer
    entries than another one, its rows hold anything. No change overwrites an entry that is kept,
    and every change ends by rebinding the attributes. Restoring the attributes that the buffer
    had before a change, and then calling `recover`, therefore undoes the change.

    Every row has a key: G·b + g for group g of replica b, times 2⁴⁰, plus the round of its context.
    Keys ascend along the table, so one search finds the entries up to a given round in all groups.

    Args:
        empty: a (B, 0, d) tensor that fixes d, the dtype and the device.
        groups: G.

    Attributes:
        mask: which features of each group's contexts are stored.
        table: the stored features of all rows, (R, w).
        addresses: the row of entry 0 of each group, kept or not, (B, 1, G) int64.
        total: how many entries each group has had, (B, 1, G) int64.
        alike: whether all replicas had contexts of the same groups in every round.
    """

    mask: FeatureMask
    table: Tensor
    addresses: Tensor
    total: Tensor
    alike: bool

    def __init__(self, empty: Tensor, groups: int) -> None:
        self._empty = empty
        b, _, d = empty.shape
        self.total = torch.zeros(b, 1, groups, dtype=torch.int64, device=empty.device)
        self._forgotten = [0] * groups  # how many of each group are forgotten
        self.alike = True
        mask = FeatureMask(empty.new_zeros(groups, d, dtype=torch.bool))
        none = fresh((b, 0, mask.width), empty), self.total[:, 0, :0]
        self._lay_out(mask, [none] * groups, [0] * groups)

    def append(self, contexts: Tensor, groups: Tensor, rounds: Tensor | int) -> None:
        """Appends M contexts of each replica to the sequences of their groups.

        Args:
            contexts: (B, M, d), copied.
            groups: their groups, (B, M) int64; contexts of group −1 are left out.
            rounds: the round of each context, (M,) int64, or the only one; the same for all
                replicas, nondecreasing, and no earlier than the last one appended. The caller
                ensures this.
        """
        b, m = groups.shape
        alike = self.alike and (b == 1 or bool((groups == groups[:1]).all()))
        if alike:  # one replica stands for all
            groups, total = groups[:1], self.total[:1]
        else:
            total = self.total
        number = (groups.unsqueeze(2) == self._every).cumsum(1).add_(total)
        total = number[:, -1:]
        self._reserve((total[0, 0] if alike else total.amax((0, 1))).tolist())
        absent, own = groups < 0, groups.clamp(min=0)
        stored = self.mask.of_each(own.expand(b, -1), contexts)
        if self.mask.loses(contexts, stored):  # perhaps only of contexts that are left out
            self._learn(groups.expand(b, -1), contexts)
            stored = self.mask.of_each(own.expand(b, -1), contexts)
        row = (number + self._before).gather(2, own.unsqueeze(2)).squeeze(2) + self._offset
        row = row.masked_fill_(absent, self.table.shape[0] - 1).view(-1)
        key = torch.add(self._base[:, :, 0] + rounds, own, alpha=LATEST + 1)
        key.masked_fill_(absent, self._last_key)
        self.table.index_copy_(0, row, stored.reshape(b * m, -1))
        self._keys.view(-1).index_copy_(0, row, key.view(-1))
        self.total, self.alike = total.expand(b, -1, -1), alike

    def up_to(self, rounds: Tensor) -> Tensor:
        """How many entries each group had after given rounds, (W, N): (W, B, N, G) int64.

        Entries that are forgotten count too, but for rounds in which all kept ones were to come
        this is no less than the number of those forgotten.
        """
        base, addresses = self._base, self.addresses
        if self.alike:
            base, addresses = base[:1], addresses[:1]
        wanted = base + rounds.view(rounds.shape[0], 1, -1, 1)
        row = torch.searchsorted(self._keys.view(-1), wanted, right=True)
        return row.sub_(addresses).expand(-1, self._base.shape[0], -1, -1)

    def stored(self, group: int, low: int, high: int) -> Tensor:
        """The stored features of entries low … high − 1 of a group, (B, high − low, w)."""
        shift = self._shifts[group]
        return self._rows[:, shift + low : shift + high]

    def contexts(self, group: int, low: int, high: int) -> Tensor:
        """Entries low … high − 1 of a group, (B, high − low, d)."""
        return self.mask.whole(group, self.stored(group, low, high))

    def rounds(self, group: int, low: int, high: int) -> Tensor:
        """The rounds of entries low … high − 1 of a group, (B, high − low) int64.

        An entry that a replica does not have is of round `LATEST`.
        """
        shift = self._shifts[group]
        return self._keys[:, shift + low : shift + high] - self._base[:, :, group]

    def forget(self, counts: Sequence[int]) -> None:
        """Forgets the first entries of each group: so many, those forgotten before included."""
        self._forgotten = [max(both) for both in zip(self._forgotten, counts, strict=True)]

    def grow(self, groups: int) -> None:
        """Adds empty sequences until there are G groups."""
        more = groups - len(self._room)
        kept, none = self._kept(), (self._rows[:, :0], self._keys[:, :0])
        self.total = torch.nn.functional.pad(self.total, (0, more))
        self._forgotten = self._forgotten + [0] * more
        self._lay_out(self.mask.grow(groups), [*kept, *[none] * more], [*self._room, *[0] * more])

    def recover(self) -> None:
        """Clears the rows that an append wrote before it was undone."""
        self._lay_out(self.mask, self._kept(), self._room)

    def state(self) -> dict[str, list[Tensor]]:
        """The entries that are kept and their rounds, one tensor for each group."""
        kept = self._kept()
        return {
            "contexts": [self.mask.whole(group, rows) for group, (rows, _) in enumerate(kept)],
            "rounds": [rounds for _, rounds in kept],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state` gave."""
        b, _, d = self._empty.shape
        device, sizes = self._empty.device, len(self._room)
        rounds = state["rounds"]
        saved = list(zip(state["contexts"], rounds, strict=True))
        used = torch.zeros(sizes, d, dtype=torch.bool, device=device)
        total = torch.zeros(b, 1, sizes, dtype=torch.int64, device=device)
        for group, (rows, times) in enumerate(saved):
            used[group] = (rows != 0).any(1).any(0)
            total[:, 0, group] = (times != LATEST).sum(1)
        mask, self.total, self._forgotten = FeatureMask(used), total, [0] * sizes
        self.alike = all(bool((times == times[:1]).all()) for times in rounds)
        kept = [(mask.of_group(group, rows), times) for group, (rows, times) in enumerate(saved)]
        self._lay_out(mask, kept, [rows.shape[1] for rows in state["contexts"]])

    def _kept(self) -> list[tuple[Tensor, Tensor]]:
        """For each group the stored features of the entries that are kept, and their rounds."""
        found = []
        for group, low in enumerate(self._forgotten):
            own = self.total[:, 0, group, None]
            high = max(low, int(own.max()))
            missing = torch.arange(low, high, device=own.device) >= own
            rounds = self.rounds(group, low, high).masked_fill(missing, LATEST)
            found.append((self.stored(group, low, high), rounds))
        return found

    def _learn(self, groups: Tensor, contexts: Tensor) -> None:
        """Stores further features from now on, if contexts have any that the mask leaves out."""
        mask = self.mask.learn(groups, contexts)
        if mask is not self.mask:
            kept = [
                (mask.of_group(group, self.mask.whole(group, rows)), rounds)
                for group, (rows, rounds) in enumerate(self._kept())
            ]
            self._lay_out(mask, kept, self._room)

    def _reserve(self, counts: Sequence[int]) -> None:
        """Makes room for so many entries of each group, forgotten ones included."""
        if any(map(gt, counts, self._most)):
            spare = SPARE // len(self._empty)
            sizes = zip(counts, self._forgotten, self._dropped, self._room, strict=True)
            rooms = [
                _room(count - forgotten, count - dropped, room, spare)
                for count, forgotten, dropped, room in sizes
            ]
            self._lay_out(self.mask, self._kept(), rooms)

    def _lay_out(
        self, mask: FeatureMask, kept: Sequence[tuple[Tensor, Tensor]], rooms: Sequence[int]
    ) -> None:
        """Moves the entries that are kept, features and rounds by group, to a new table.

        The table stores the features of a mask, and has room for so many rows of each group.
        """
        b, groups, device = len(self._empty), len(rooms), self._empty.device
        length = sum(rooms) + 1  # the last row takes the contexts that are left out
        owner = torch.arange(b * groups, device=device).view(b, 1, groups)
        base = owner * (LATEST + 1)
        rows = fresh((b, length, mask.width), self._empty)
        keys = fresh((b, length), owner)
        keys[:, -1] = (torch.arange(1, b + 1, device=device) * groups) * (LATEST + 1) - 1
        shifts, start = list[int](), 0
        for group, (room, (stored, rounds)) in enumerate(zip(rooms, kept, strict=True)):
            end = start + stored.shape[1]
            rows[:, start:end] = stored
            keys[:, start:end] = rounds + base[:, :, group]
            keys[:, end : start + room] = base[:, :, group] + LATEST
            shifts.append(start - self._forgotten[group])
            start += room
        self.mask, self._room, self._dropped = mask, list(rooms), list(self._forgotten)
        self._most = list(map(add, self._dropped, rooms))  # how many entries fit
        self._rows, self._keys, self._shifts = rows, keys, shifts
        self.table, self._base = rows.view(b * length, -1), base
        self._last_key = b * groups * (LATEST + 1) - 1
        shift = torch.tensor(shifts, dtype=torch.int64, device=device)
        self._offset, self._before = torch.arange(b, device=device)[:, None] * length, shift - 1
        self.addresses = self._offset[..., None] + shift
        self._every = torch.arange(groups, device=device)


def _room(kept: int, held: int, room: int, spare: int) -> int:
    """Room for the entries that are kept, where they and the forgotten ones hold so many rows.

    The room stays as it is, unless that would soon be too little, or is far too much. Room up to
    the spare is never too much.
    """
    if held <= room or 2 * kept <= room <= max(8 * kept, spare):
        return room
    return max(2 * kept, min(16 * kept, spare), 64)
