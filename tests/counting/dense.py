"""The dense judge: all past contexts, scored in every round and masked by window and group.

It shares no code with the package's counting. Work and memory grow with the number of values times
the number of contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class DenseContexts:
    """All past contexts; it has the methods of `Contexts` that plays without forgetting call."""

    groups: int
    max_contexts: int | None
    past: tuple[Tensor, Tensor, Tensor]
    rounds: int = 0
    forgotten: int = 0

    @classmethod
    def empty(cls, like: Tensor, groups: int, max_contexts: int | None = None) -> DenseContexts:
        none = torch.zeros(like.shape[:2], dtype=torch.int64, device=like.device)
        return cls(groups, max_contexts, (like, none, none))

    def append(self, contexts: Tensor, groups: Tensor) -> DenseContexts:
        rounds = self.rounds + groups.shape[1]
        new = torch.arange(self.rounds + 1, rounds + 1, device=groups.device)[:, None]
        parts = zip(self.past, (contexts, groups, new.expand(groups.shape)), strict=True)
        contexts, groups, new = (torch.cat([old, more.flatten(1, 2)], 1) for old, more in parts)
        return replace(self, past=(contexts, groups, new), rounds=rounds)

    def forget(self, rounds: int) -> DenseContexts:
        return self

    def grow(self, groups: int) -> DenseContexts:
        return replace(self, groups=groups)


class DensePastScores:
    """Past scores with the arguments and the methods of `PastScores`, counted by masks."""

    def __init__(
        self,
        contexts: Any,
        times: Any,
        window: Any,
        groups: Any,
        model: Any,
        of_round: Any,
        own: Any,
    ) -> None:
        self._x, self._members, self._rounds = contexts.past
        self._groups, self._model, self._of_round, self._own = groups, model, of_round, own
        now, *ends = (torch.from_numpy(part)[:, None, None] for part in (times, *window))
        self._now, (start, stop) = now, ends
        members, rounds = self._members[:, None, None], self._rounds[:, None, None]
        mine = (members == groups[..., None]) & (members >= 0)
        self._mask = mine & (start < rounds) & (rounds <= stop)
        if contexts.max_contexts is not None:
            earlier = mine & (rounds < now)
            number = earlier.flip(3).cumsum(3).flip(3)  # 1 for the group's last before the round
            self._mask &= number <= contexts.max_contexts
        self._given = contexts, times, window
        self._models = model, of_round

    def of(self, groups: Tensor | None = None) -> DensePastScores:
        if groups is None:
            every = torch.arange(self._given[0].groups)
            groups = every.expand(*self._groups.shape[:2], -1)
        return DensePastScores(*self._given, groups, *self._models, None)

    @cached_property
    def count(self) -> Tensor:
        return self._mask.sum(3, dtype=torch.float64)

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        mean = self.sum(lambda old: old) / self.count
        return mean, self.sum(lambda old, mean: (old - mean) ** 2, mean) / self.count

    def count_le(self, values: Tensor | None = None, of: str = "score") -> Tensor:
        values = self._own.value + 2 * self._own.slack if values is None else values
        return (self._mask & (self._past(of) <= values[..., None])).sum(3, dtype=torch.float64)

    def count_lt(self, values: Tensor | None = None, of: str = "score") -> Tensor:
        values = self._own.value - 2 * self._own.slack if values is None else values
        return (self._mask & (self._past(of) < values[..., None])).sum(3, dtype=torch.float64)

    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        given = [self._past("score"), *(value[..., None] for value in values)]
        if ages:
            given.append((self._now - self._rounds[:, None, None]).clamp(min=1).double())
        given = [part.expand(self._mask.shape) for part in given]
        return f(*given).where(self._mask, 0).sum(3, dtype=torch.float64)

    def _past(self, of: str) -> Tensor:
        """The scores or bounds of all contexts under each round's model, (B, N, 1, L)."""
        given = self._x[:, None], self._members[:, None]
        if of == "score":
            past = self._model.score(*given)
        else:
            past = self._model.bounds(*given)[of == "upper"]
        return past[:, self._of_round][:, :, None]
