"""The reference store: scores every past context for every round, and masks by group and window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
        came, first, n = self.round_of[:, None, None], query.first, len(query.start)
        rounds = torch.arange(first, first + n, device=groups.device)[:, None, None]
        start, stop = query.start[:, None, None], query.stop[:, None, None]
        member = (self.group_of[:, None, None] == groups[..., None]) & (groups[..., None] >= 0)
        inside = member & (came > start) & (came <= stop)
        if self.memory is not None:
            before = member & (came < rounds)
            later = before.flip(3).cumsum(3).flip(3)  # members from this one to the last before t
            inside &= later <= self.memory
        scores = query.model.score(self.contexts[:, None], self.group_of[:, None])
        scores = scores.index_select(1, query.of_round)
        return DensePastScores(scores[:, :, None], inside, (rounds - came).clamp(min=1).double())


@dataclass(eq=False)
class DensePastScores(PastScores):
    """All L past scores, whatever their groups; see `PastScores`.

    Attributes:
        scores: (B, N, 1, L).
        inside: which of them count for each value, (B, N, M, L) bool.
        ages: how many rounds ago each came, (B, N, 1, L) float64.
    """

    scores: Tensor
    inside: Tensor
    ages: Tensor

    @property
    def count(self) -> Tensor:
        """See `PastScores`."""
        return self.inside.sum(3, dtype=torch.float64)

    def count_le(self, values: Tensor) -> Tensor:
        """See `PastScores`."""
        below = self.scores <= values[..., None]
        return (below & self.inside).sum(3, dtype=torch.float64)

    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        """See `PastScores`."""
        past = self.scores.expand(self.inside.shape)
        given = [past, *(value[..., None] for value in values)]
        if ages:
            given.append(self.ages.expand(past.shape))
        return f(*given).where(self.inside, 0).sum(3, dtype=torch.float64)
