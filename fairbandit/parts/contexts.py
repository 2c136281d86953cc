"""The past contexts that feed the ranks, one list per group in order of round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths import checks
from fairbandit.maths.buffers import Rows
from fairbandit.maths.lists import Lists
from fairbandit.parts.index import Index
from fairbandit.parts.splits import Division


class ContextStore:
    """All past contexts, by group.

    Args:
        empty: a (B, 0, d) tensor that fixes d, the dtype and the device.
        groups: G.
    """

    def __init__(self, empty: Tensor, groups: int) -> None:
        b = len(empty)
        self.lists = Lists(empty, groups)
        self.index = Index()
        # entries by now, and by the end of each round from 0 on, (B, 1 + round, G)
        self._total = torch.zeros(b, 1, groups, dtype=torch.int64, device=empty.device)
        self._totals = Rows(self._total.clone())
        self._every = torch.arange(groups, device=empty.device)

    @property
    def rounds(self) -> int:
        """How many rounds were appended so far."""
        return self._totals.count - 1

    def append(self, contexts: Tensor, groups: Tensor) -> None:
        """Appends the pools of the next N rounds, and leaves out empty places.

        Args:
            contexts: (B, N, K, d).
            groups: (B, N, K) int64, −1 for an empty place.
        """
        b, n, k, d = contexts.shape
        g = self._total.shape[2]
        flat = groups.reshape(b, n * k)
        member = flat.unsqueeze(2) == self._every
        order = member.cumsum(1).add_(self._total)
        self._totals.append(order.view(b, n, k, g).select(2, k - 1))
        self._total = order[:, -1:]
        self.lists.reserve(self._total.amax((0, 1)).tolist())
        own = flat.clamp(min=0)
        place = (self.lists.addresses + order).gather(2, own.unsqueeze(2)).squeeze(2) - 1
        place = place.where(flat >= 0, self.lists.nowhere)
        self.lists.write(own, place, contexts.reshape(b, n * k, d))

    def total(self, rounds: Tensor) -> Tensor:
        """How many entries each group has had by the end of given rounds, (N,): (B, N, G)."""
        if len(rounds) == 1:
            low = int(rounds.item())
            return self._totals[low, low + 1]
        low, high = (int(end) for end in rounds.aminmax())
        return self._totals[low, high + 1].index_select(1, rounds - low)

    def window(self, division: Division) -> tuple[Tensor, Tensor]:
        """The entries that each round's window holds: start+1 … stop of each group, (B, N, G)."""
        return self.total(division.start), self.total(division.stop)

    def entries(self, group: int, after: int, until: int) -> Tensor:
        """Entries after+1 … until of a group, in order of round: (B, until − after, d).

        Entries that a replica does not have (yet) hold anything.
        """
        return self.lists.entries(group, after, until)

    def forget(self, rounds: int) -> None:
        """No later window reads the contexts of these first rounds."""
        if rounds > 0:
            gone = self.total(torch.tensor([rounds], device=self._total.device))[:, 0]
            # what the index holds is subtracted by scanning it
            self.lists.forget(self.index.least(gone.amin(0).tolist()))
            self._totals.forget(rounds)

    def grow(self, groups: int) -> None:
        """Makes room for new groups, G of them in all."""
        self.lists.grow(groups)
        self.index = Index()
        self._totals.widen(groups)
        self._total = torch.nn.functional.pad(self._total, (0, groups - self._total.shape[2]))
        self._every = torch.arange(groups, device=self._total.device)

    def recover(self) -> None:
        """Makes whole what a change may have left half done, once the attributes are restored."""
        self.index = Index()

    def holders(self) -> list[object]:
        """The objects whose attributes hold the contexts; see `Attributes` in `agent.undo`."""
        return [self, self.lists, self._totals]

    def state(self) -> dict[str, Any]:
        """All that is kept, as plain tensors and numbers."""
        return {**self.lists.state(), "totals": self._totals.state(), "total": self._total}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state` gave.

        Raises:
            FairbanditError: a state of another problem, or one of which parts do not match.
        """
        checks.mapping("contexts", state)
        self.lists.load_state(state["entries"], state["dropped"])
        self._totals.load_state(state["totals"])
        self._total = checks.like("total", state["total"], self._total)
        if not self._matches():
            raise FairbanditError(
                f"saved contexts of {self.rounds} rounds: the contexts and their counts are not "
                "of the same rounds and groups"
            )

    def _matches(self) -> bool:
        """Whether the lists hold the entries that the totals count."""
        after, until = self._totals.kept
        if not after < until:
            return False
        totals = self._totals[after, until]
        first, last = totals[:, 0].amin(0).tolist(), self._total.amax((0, 1)).tolist()
        spans = zip(self.lists.spans(), first, last, strict=True)
        return (
            bool((totals.diff(dim=1) >= 0).all())
            and torch.equal(totals[:, -1:], self._total)
            and all(start <= low and stop == high for (start, stop), low, high in spans)
        )
