"""Where sums over the past find its contexts."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from fairbandit.maths.lists import Lists
from fairbandit.parts.index import Index
from fairbandit.parts.splits import Division


class Store(Protocol):
    """Contexts of the past, one list a group in order of round: the history, or a rank's own."""

    @property
    def index(self) -> Index | None:
        """An index over the lists; None where windows are always scanned."""

    @property
    def lists(self) -> Lists | None:
        """The lists, where they lie in one table; None where `entries` has to put them together."""

    def window(self, division: Division) -> tuple[Tensor, Tensor]:
        """The entries that each round's window holds: start+1 … stop of each group.

        Args:
            division: fields (N,).

        Returns:
            Starts and stops, (B, N, G) int64 each, with start ≤ stop.
        """

    def entries(self, group: int, after: int, until: int) -> Tensor:
        """Entries after+1 … until of a group: (B, until − after, d), anything where none is."""
