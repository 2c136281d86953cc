"""The reference: score every past context for every round, and mask by group and window."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from fairbandit.counting.interface import PastScores, Query


class DenseStore:
    """All past contexts in one tensor; it gives the answers of `ContextStore`, and never forgets.

    Args:
        empty: a (B, 0, d) tensor that fixes d, the dtype and the device.
        groups: G.
        memory: how many of its last contexts count of each group; None counts all.
    """

    def __init__(self, empty: Tensor, groups: int, memory: int | None = None) -> None:
        self.groups, self.memory, self.rounds, self.contexts = groups, memory, 0, empty
        self.group_of = self.round_of = empty.new_zeros(empty.shape[:2], dtype=torch.int64)

    def append(self, contexts: Tensor, groups: Tensor) -> None:
        """Appends the pools of the next N rounds: (B, N, K, d) and (B, N, K)."""
        _, n, k = groups.shape
        new = torch.arange(self.rounds + 1, self.rounds + n + 1, device=groups.device)
        self.contexts = torch.cat([self.contexts, contexts.flatten(1, 2)], 1)
        self.group_of = torch.cat([self.group_of, groups.flatten(1)], 1)
        rounds = new.repeat_interleave(k).expand(len(groups), -1)
        self.round_of = torch.cat([self.round_of, rounds], 1)
        self.rounds += n

    def forget(self, rounds: int) -> None:
        """Forgets nothing."""

    def past_scores(self, query: Query, groups: Tensor) -> DensePastScores:
        """The past scores of the groups (B, N, M) that values are compared with."""
        return DensePastScores(self, query, groups)


class DensePastScores(PastScores):
    """Past scores (B, N, L) of all L past contexts, and which of them count, (B, N, M, L)."""

    def __init__(self, store: DenseStore, query: Query, groups: Tensor) -> None:
        self._store, self._query, self._groups = store, query, groups

    @property
    def count(self) -> Tensor:
        """See `PastScores`."""
        return self._inside.sum(3, dtype=torch.float64)

    def count_le(self, values: Tensor) -> Tensor:
        """See `PastScores`."""
        below = self._scores[:, :, None] <= values[..., None]
        return (below & self._inside).sum(3, dtype=torch.float64)

    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        """See `PastScores`."""
        past = self._scores[:, :, None].expand(self._inside.shape)
        age = (self._rounds - self._store.round_of[:, None, None]).clamp(min=1)
        given = [past, *(value[..., None] for value in values)]
        terms = f(*given, age.expand(past.shape).double()) if ages else f(*given)
        return terms.where(self._inside, 0).sum(3, dtype=torch.float64)

    @property
    def _rounds(self) -> Tensor:
        """The rounds t, (N, 1, 1)."""
        first, n = self._query.first, len(self._query.start)
        return torch.arange(first, first + n, device=self._groups.device)[:, None, None]

    @cached_property
    def _scores(self) -> Tensor:
        store, query = self._store, self._query
        scores = query.model.score(store.contexts[:, None], store.group_of[:, None])
        return scores.index_select(1, query.of_round)

    @cached_property
    def _inside(self) -> Tensor:
        store, query = self._store, self._query
        came, start, stop = store.round_of[:, None, None], query.start, query.stop
        member = store.group_of[:, None, None] == self._groups[..., None]
        member &= self._groups[..., None] >= 0
        inside = member & (came > start[:, None, None]) & (came <= stop[:, None, None])
        if store.memory is not None:
            before = member & (came < self._rounds)
            later = before.flip(3).cumsum(3).flip(3)  # members from this one to the last before t
            inside &= later <= store.memory
        return inside
