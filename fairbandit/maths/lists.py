"""Growing lists of rows in one table, so that rows of many lists are read and written together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fairbandit.maths import checks
from fairbandit.maths.buffers import fresh
from fairbandit.maths.columns import Columns

SPARE = 1 << 16
"""Rows, of all replicas, up to which room is made generously: moving costs more than room."""


class Lists:
    """One growing list of rows a group for each of B replicas; the first rows may be forgotten.

    Entry i (from 0) of a group is that many rows of `table` after its address. Rows of a list that
    a replica does not have (yet), while another one does, hold anything. No change writes over the
    entries that are kept, and all bind the attributes anew: whoever keeps them can go back to them.

    Args:
        empty: a (B, 0, d) tensor that fixes d, the dtype and the device.
        groups: how many lists each replica has.

    Attributes:
        columns: what of every entry is kept.
        table: all rows, (R, w), as they are kept; a view.
        addresses: the row at which entry 0 of each group is or would be, (B, 1, G) int64.
        nowhere: the row that takes what is not kept.
    """

    columns: Columns
    table: Tensor
    addresses: Tensor
    nowhere: int

    def __init__(self, empty: Tensor, groups: int) -> None:
        b, _, d = empty.shape
        self.columns = Columns(empty.new_zeros(groups, d, dtype=torch.bool))
        # the last row takes what belongs nowhere
        self._rows = empty.new_empty(b, 1, self.columns.width)
        self._count = [0] * groups  # of the replica that has most
        self._forgotten = [0] * groups
        self._dropped = [0] * groups  # those forgotten whose rows are used again
        self._room = [0] * groups
        self._lay_out()

    def write(self, groups: Tensor, place: Tensor, values: Tensor) -> None:
        """Writes entries, each where it belongs.

        Args:
            groups: theirs, (B, M); any for values that belong nowhere.
            place: rows of the table, (B, M); `nowhere` for values that belong nowhere.
            values: (B, M, d).
        """
        picked = self.columns.pick(groups, values)
        if self.columns.loses(values, picked):  # perhaps of what belongs nowhere
            columns = self.columns.learn(groups.where(place != self.nowhere, -1), values)
            if columns is not self.columns:
                self._keep(columns)
                picked = self.columns.pick(groups, values)
        self.table.index_copy_(0, place.view(-1), picked.reshape(-1, picked.shape[2]))

    def reserve(self, counts: Sequence[int]) -> None:
        """Makes room for so many entries of each group, those that are forgotten included."""
        old, self._count = self._count, list(counts)
        lists = zip(counts, self._forgotten, self._dropped, self._room, strict=True)
        spare = SPARE // len(self._rows)
        rooms = [
            _room(n - forgotten, n - dropped, room, spare) for n, forgotten, dropped, room in lists
        ]
        full = zip(counts, self._dropped, self._room, strict=True)
        if any(n - dropped > room for n, dropped, room in full):
            self._move(old, rooms)

    def entries(self, group: int, after: int, until: int) -> Tensor:
        """Entries after … until − 1 of a group, (B, until − after, d)."""
        return self.columns.whole(group, self.kept(group, after, until))

    def kept(self, group: int, after: int, until: int) -> Tensor:
        """What is kept of entries after … until − 1 of a group, (B, until − after, w); a view."""
        start = self._start[group] - self._dropped[group]
        return self._rows[:, start + after : start + until]

    def spans(self) -> list[tuple[int, int]]:
        """The entries of each group that are not forgotten."""
        return list(zip(self._forgotten, self._count, strict=True))

    def forget(self, until: Sequence[int]) -> None:
        """The entries of each group before these are not asked for again."""
        self._forgotten = [max(both) for both in zip(self._forgotten, until, strict=True)]

    def grow(self, groups: int) -> None:
        """Adds empty lists until there are so many."""
        more = [0] * (groups - len(self._count))
        self._count, self._forgotten = self._count + more, self._forgotten + more
        self._dropped, self._room = self._dropped + more, self._room + more
        self.columns = self.columns.grow(groups)
        self._lay_out()

    def state(self) -> dict[str, list[Tensor] | list[int]]:
        """The rows that are kept, and how many of each list came before them."""
        spans = enumerate(self.spans())
        kept = [self.entries(group, after, until).clone() for group, (after, until) in spans]
        return {"entries": kept, "dropped": list(self._forgotten)}

    def load_state(self, entries: Sequence[Tensor], dropped: Sequence[int]) -> None:
        """Goes on from what `state` gave.

        Raises:
            FairbanditError: entries of another kind, or not those of so many groups.
        """
        b, _, _ = self._rows.shape
        none = self._rows.new_empty(b, 0, self.columns.features)
        checks.length("entries", entries, len(self._count))
        checks.length("dropped", dropped, len(self._count))
        entries = [checks.like("entries", rows, none, free=1) for rows in entries]
        dropped = [checks.count("dropped", number) for number in dropped]
        self._forgotten, self._dropped = list(dropped), list(dropped)
        self._room = [rows.shape[1] for rows in entries]
        self._count = [sum(both) for both in zip(dropped, self._room, strict=True)]
        used = self._rows.new_zeros(len(entries), self.columns.features, dtype=torch.bool)
        for group, rows in enumerate(entries):
            used[group] = (rows != 0).any(1).any(0)
        self.columns = Columns(used)
        picked = [self.columns.pick_of(group, rows) for group, rows in enumerate(entries)]
        self._rows = torch.cat([*picked, self._rows.new_empty(b, 1, self.columns.width)], 1)
        self._lay_out()

    def _keep(self, columns: Columns) -> None:
        """Keeps other columns, which lose nothing that was kept."""
        b, length, _ = self._rows.shape
        rows = fresh((b, length, columns.width), self._rows)
        for group, (start, room) in enumerate(zip(self._start, self._room, strict=True)):
            whole = self.columns.whole(group, self._rows[:, start : start + room])
            rows[:, start : start + room] = columns.pick_of(group, whole)
        self._rows, self.columns = rows, columns
        self._lay_out()

    def _move(self, counts: Sequence[int], rooms: list[int]) -> None:
        """Moves what is kept of so many entries to the front of its room in a new table."""
        kept = [
            self.kept(group, forgotten, max(n, forgotten))
            for group, (n, forgotten) in enumerate(zip(counts, self._forgotten, strict=True))
        ]
        b, _, d = self._rows.shape
        self._rows, self._room = fresh((b, sum(rooms) + 1, d), self._rows), rooms
        self._dropped = list(self._forgotten)
        self._lay_out()
        for start, rows in zip(self._start, kept, strict=True):
            self._rows[:, start : start + rows.shape[1]] = rows

    def _lay_out(self) -> None:
        self._start = [sum(self._room[:group]) for group in range(len(self._room))]
        base = [start - gone for start, gone in zip(self._start, self._dropped, strict=True)]
        b, rows, d = self._rows.shape
        first = torch.arange(b, device=self._rows.device).view(b, 1, 1) * rows
        self.table, self.nowhere = self._rows.view(-1, d), b * rows - 1
        self.addresses = first + torch.tensor(base, dtype=torch.int64, device=first.device)


def _room(kept: int, held: int, room: int, spare: int) -> int:
    """Room for a list: as it is, unless that would soon be too little, or is far too much.

    Args:
        kept: how many entries are still asked for.
        held: how many rows they and those that are forgotten take.
        room: what there is.
        spare: room up to this is never too much.
    """
    if held <= room or 2 * kept <= room <= max(8 * kept, spare):
        return room
    return max(2 * kept, min(16 * kept, spare), 64)
