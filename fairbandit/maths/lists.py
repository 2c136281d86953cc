"""Growing lists of rows in one table, so that rows of many lists are read and written together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Lists:
    """One growing list of rows a group for each of B replicas; the first rows may be forgotten.

    Entry i (from 0) of a group is row `address` + i of `table`. Rows of a list that a replica does
    not have (yet), while another one does, hold anything.

    Args:
        empty: a (B, 0, d) tensor that fixes d, the dtype and the device.
        groups: how many lists each replica has.
    """

    def __init__(self, empty: Tensor, groups: int) -> None:
        b, _, d = empty.shape
        self._rows = empty.new_empty(b, 1, d)  # the last row takes what belongs nowhere
        self._count = [0] * groups  # of the replica that has most
        self._dropped = [0] * groups
        self._room = [0] * groups
        self._lay_out()

    @property
    def table(self) -> Tensor:
        """All rows, (R, d); a view."""
        return self._rows.view(-1, self._rows.shape[2])

    def address(self, group: Tensor) -> Tensor:
        """The row at which entry 0 of a group is or would be; groups (B, …), −1 for none."""
        b, rows, _ = self._rows.shape
        first = torch.arange(b, device=group.device).view(-1, *[1] * (group.ndim - 1)) * rows
        return first + self._base[group]

    def write(self, groups: Tensor, number: Tensor, values: Tensor) -> None:
        """Writes entries, each where it belongs.

        Args:
            groups: (B, M), −1 for values that belong nowhere.
            number: which entry of its group each is, from 0: (B, M).
            values: (B, M, d).
        """
        place = self.address(groups) + number.where(groups >= 0, 0)
        self.table.index_copy_(0, place.reshape(-1), values.reshape(-1, values.shape[2]))

    def reserve(self, counts: Sequence[int]) -> None:
        """Makes room for so many entries of each group, those that are gone included."""
        old = self._count
        self._count = list(counts)
        if any(n - gone > room for n, gone, room in self._each()):
            room = [max(2 * (n - gone), 64) for n, gone, _ in self._each()]
            self._move(old, room, self._dropped)

    def entries(self, group: int, after: int, until: int) -> Tensor:
        """Entries after … until − 1 of a group, (B, until − after, d); a view."""
        start = self._start[group] - self._dropped[group]
        return self._rows[:, start + after : start + until]

    def forget(self, until: Sequence[int]) -> None:
        """The entries of each group before these are not asked for again."""
        gone = [max(before, now) for before, now in zip(self._dropped, until, strict=True)]
        used = [n - now for n, now in zip(self._count, gone, strict=True)]
        if sum(gone) - sum(self._dropped) > max(sum(used), 64):
            self._move(self._count, [max(2 * n, 64) for n in used], gone)

    def grow(self, groups: int) -> None:
        """Adds empty lists until there are so many."""
        more = groups - len(self._count)
        for numbers in (self._count, self._dropped, self._room):
            numbers.extend([0] * more)
        self._lay_out()

    def state(self) -> dict[str, list[Tensor] | list[int]]:
        """The rows that are kept, and how many of each list came before them."""
        kept = [
            self.entries(group, gone, n).clone() for group, (n, gone, _) in enumerate(self._each())
        ]
        return {"entries": kept, "dropped": list(self._dropped)}

    def load_state(self, entries: Sequence[Tensor], dropped: Sequence[int]) -> None:
        """Goes on from what `state` gave."""
        self._dropped = list(dropped)
        self._count = [gone + rows.shape[1] for gone, rows in zip(dropped, entries, strict=True)]
        self._room = [rows.shape[1] for rows in entries]
        last = self._rows[:, -1:]
        self._rows = torch.cat([*entries, last.to(entries[0]) if entries else last], 1)
        self._lay_out()

    def _each(self) -> zip[tuple[int, int, int]]:
        """Of each list, how many entries it had, how many are gone, and its room."""
        return zip(self._count, self._dropped, self._room, strict=True)

    def _move(
        self, counts: Sequence[int], room: list[int], dropped: list[int] | None = None
    ) -> None:
        """Moves all rows to a table with other room, dropping some."""
        b, _, d = self._rows.shape
        dropped = self._dropped if dropped is None else dropped
        kept = [
            self.entries(group, gone, max(n, gone))
            for group, (n, gone) in enumerate(zip(counts, dropped, strict=True))
        ]
        self._rows = self._rows.new_empty(b, sum(room) + 1, d)
        self._room, self._dropped = room, list(dropped)
        self._lay_out()
        for start, rows in zip(self._start, kept, strict=True):
            self._rows[:, start : start + rows.shape[1]] = rows

    def _lay_out(self) -> None:
        self._start = [sum(self._room[:group]) for group in range(len(self._room))]
        base = [start - gone for start, gone in zip(self._start, self._dropped, strict=True)]
        nowhere = self._rows.shape[1] - 1
        self._base = torch.tensor([*base, nowhere], device=self._rows.device)
