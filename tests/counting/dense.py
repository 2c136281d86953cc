"""A store of past contexts that forgets nothing and shares no memory; the reference counts them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairbandit.history.contexts import History


@dataclass(frozen=True, eq=False)
class DenseContexts:
    """All past contexts; it has the methods of `Contexts` that `forced("dense")` leads to."""

    groups: int
    max_contexts: int | None
    past: History
    rounds: int = 0
    forgotten: int = 0

    @classmethod
    def empty(cls, like: Tensor, groups: int, max_contexts: int | None = None) -> DenseContexts:
        none = torch.zeros(like.shape[:2], dtype=torch.int64, device=like.device)
        return cls(groups, max_contexts, History(like, none, none))

    def append(self, contexts: Tensor, groups: Tensor) -> DenseContexts:
        rounds = self.rounds + groups.shape[1]
        new = torch.arange(self.rounds + 1, rounds + 1, device=groups.device)[:, None]
        parts = zip(self.past, (contexts, groups, new.expand(groups.shape)), strict=True)
        past = History(*(torch.cat([old, more.flatten(1, 2)], 1) for old, more in parts))
        return replace(self, past=past, rounds=rounds)

    def forget(self, rounds: int) -> DenseContexts:
        return self

    def grow(self, groups: int) -> DenseContexts:
        return replace(self, groups=groups)

    def history(self) -> History:
        return self.past
