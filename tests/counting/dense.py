"""The reference of counting: scores every past context for every round, and masks by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fairbandit.counting import Of, PastScores


@dataclass(frozen=True, eq=False)
class DenseContexts:
    """All past contexts, (B, L, d), their groups and rounds; takes the calls of `Contexts`."""

    groups: int
    max_contexts: int | None
    contexts: Tensor
    group_of: Tensor
    round_of: Tensor
    rounds: int = 0

    @classmethod
    def empty(cls, like: Tensor, groups: int, max_contexts: int | None = None) -> DenseContexts:
        none = torch.zeros(like.shape[:2], dtype=torch.int64, device=like.device)
        return cls(groups, max_contexts, like, none, none)

    def append(self, contexts: Tensor, groups: Tensor) -> DenseContexts:
        rounds = self.rounds + groups.shape[1]
        new = torch.arange(self.rounds + 1, rounds + 1, device=groups.device)[:, None]
        return replace(
            self,
            contexts=torch.cat([self.contexts, contexts.flatten(1, 2)], 1),
            group_of=torch.cat([self.group_of, groups.flatten(1)], 1),
            round_of=torch.cat([self.round_of, new.expand(groups.shape).flatten(1)], 1),
            rounds=rounds,
        )

    def forget(self, rounds: int) -> DenseContexts:
        return self

    def grow(self, groups: int) -> DenseContexts:
        return replace(self, groups=groups)


class DenseScores(PastScores):
    """Answers as `PastScores` does, from all L past contexts, whatever their groups."""

    _contexts: Any  # DenseContexts, where the other class has Contexts

    @cached_property
    def count(self) -> Tensor:
        return self._inside.sum(3, dtype=torch.float64)

    def count_le(self, values: Tensor | None = None, of: Of = "score") -> Tensor:
        values = self._own_scores().greatest_tie if values is None else values
        below = self._known(of) <= values[..., None]
        return (below & self._inside).sum(3, dtype=torch.float64)

    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        past = self._known("score").expand(self._inside.shape)
        given = [past, *(value[..., None] for value in values)]
        if ages:
            given.append(self._ages.clamp(min=1).double().expand(past.shape))
        return f(*given).where(self._inside, 0).sum(3, dtype=torch.float64)

    def _known(self, of: Of) -> Tensor:
        """The scores or bounds of all contexts in each round, (B, N, 1, L)."""
        given = self._contexts.contexts[:, None], self._contexts.group_of[:, None]
        if of == "score":
            known = self._model.score(*given)
        else:
            known = self._model.bounds(*given)[of == "upper"]
        return known.index_select(1, self._model_of_round)[:, :, None]

    @cached_property
    def _ages(self) -> Tensor:
        """How many rounds before each round every context came, (B, N, 1, L)."""
        now = torch.arange(self._first, self._first + len(self._start), device=self._groups.device)
        return now[:, None, None] - self._contexts.round_of[:, None, None]

    @property
    def _start(self) -> Tensor:
        return torch.from_numpy(self._window[0]).to(self._groups.device)

    @property
    def _stop(self) -> Tensor:
        return torch.from_numpy(self._window[1]).to(self._groups.device)

    @cached_property
    def _inside(self) -> Tensor:
        """Which contexts count for each value, (B, N, M, L)."""
        came, groups = self._contexts.round_of[:, None, None], self._groups[..., None]
        member = (self._contexts.group_of[:, None, None] == groups) & (groups >= 0)
        inside = member & (came > self._start[:, None, None]) & (came <= self._stop[:, None, None])
        if self._contexts.max_contexts is not None:
            before = member & (self._ages > 0)
            later = before.flip(3).cumsum(3).flip(3)  # members from this one to the last before t
            inside &= later <= self._contexts.max_contexts
        return inside
