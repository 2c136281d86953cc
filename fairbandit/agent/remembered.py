"""The memory of all decisions of an agent: ids of callers, rewards of picks, and learned picks."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import torch

from fairbandit.files.formats import fitted
from fairbandit.logs import Ints

RECENT = 4_096
"""The most items in a dictionary; more items are kept in sorted arrays of 16 bytes an item."""


def key(*parts: object) -> int:
    """Returns an 8-byte hash of texts and numbers."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "big", signed=True)


class Remembered(NamedTuple):
    """An append-only mapping from 8-byte hashes to 8-byte numbers, as a value.

    Attributes:
        keys, numbers: older items in the order of their hashes, (n,) each.
        recent: newer items with their positions. Values share this dictionary: the newest value
            appends in place, and an older one copies first.
        known: the number of items of `recent` that belong to this value.
    """

    keys: Ints = np.zeros(0, np.int64)
    numbers: Ints = np.zeros(0, np.int64)
    recent: Mapping[int, tuple[int, int]] = {}
    known: int = 0

    def get(self, hashed: int) -> int | None:
        """Returns the number of a hash, or None."""
        position, number = self.recent.get(hashed, (self.known, 0))
        if position < self.known:
            return number
        at = int(self.keys.searchsorted(hashed))
        return int(self.numbers[at]) if at < len(self.keys) and self.keys[at] == hashed else None

    def plus(self, items: Mapping[int, int]) -> Remembered:
        """Returns the mapping with further items; the number of a known hash stays."""
        items = {hashed: number for hashed, number in items.items() if self.get(hashed) is None}
        recent, known = self.recent, self.known
        if len(recent) != known or not known:
            recent = {h: item for h, item in recent.items() if item[0] < known}
        assert isinstance(recent, dict)
        for hashed, number in items.items():
            recent[hashed] = len(recent), number
        new = self._replace(recent=recent, known=len(recent))
        return new if len(recent) < RECENT else Remembered(*new.items)

    @property
    def items(self) -> tuple[Ints, Ints]:
        """All hashes in ascending order, and their numbers."""
        newer = [(h, number) for h, (at, number) in self.recent.items() if at < self.known]
        more = np.array(newer, np.int64).reshape(-1, 2)
        keys = np.concatenate([self.keys, more[:, 0]])
        order = keys.argsort(kind="stable")
        return keys[order], np.concatenate([self.numbers, more[:, 1]])[order]

    def state(self) -> dict[str, Any]:
        """Returns the items as plain data."""
        return {"items": torch.from_numpy(np.stack(self.items))}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Remembered:
        """Returns the value with a given `state`."""
        items = fitted(state, {"items": torch.zeros(2, 0, dtype=torch.int64)})["items"].numpy()
        return cls(*items.copy())
