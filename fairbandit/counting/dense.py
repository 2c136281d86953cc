"""The dense reference: it scores every past context in every round and masks by window and group.

It reads the contexts, their groups and their rounds, and no other part of the package's counting.
Work and memory grow with the number of values times the number of contexts, so that it serves tests
and the search for faults. See `fairbandit.counting.forced`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from fairbandit.estimators.models import RewardModel
from fairbandit.history.contexts import Contexts, Ints

Of = Literal["score", "lower", "upper"]
"""The past quantity that values are compared with: scores, or confidence bounds."""


class DenseScores:
    """The scores of all L past contexts, and a mask of the contexts that count for each value.

    Args:
        contexts: the past contexts.
        times, window, groups, model, model_of_round: as for `PastScores`.
    """

    def __init__(
        self,
        contexts: Contexts,
        times: Ints,
        window: Ints,
        groups: Tensor,
        model: RewardModel,
        model_of_round: Tensor,
    ) -> None:
        self._past, self._max_contexts = contexts.history(), contexts.max_contexts
        self._groups, self._model, self._model_of_round = groups, model, model_of_round
        start, stop = torch.from_numpy(window).to(groups.device)
        self._start, self._stop = start[:, None, None], stop[:, None, None]
        self._now = torch.from_numpy(times).to(groups.device)[:, None, None]

    def count(self) -> Tensor:
        """The number of contexts that count for each value, (B, N, M) float64."""
        return self._mask.sum(3, dtype=torch.float64)

    def count_le(self, values: Tensor, of: Of) -> Tensor:
        """The number of scores or bounds that are at most each value, (B, N, M) float64."""
        below = self._known(of) <= values[..., None]
        return (below & self._mask).sum(3, dtype=torch.float64)

    def sum(self, f: Callable[..., Tensor], values: Sequence[Tensor], ages: bool) -> Tensor:
        """The sum of f(score, *values), or of f(score, *values, age), (B, N, M) float64."""
        given = [self._known("score"), *(value[..., None] for value in values)]
        if ages:
            given.append((self._now - self._past.rounds[:, None, None]).clamp(min=1).double())
        given = [part.expand(self._mask.shape) for part in given]
        return f(*given).where(self._mask, 0).sum(3, dtype=torch.float64)

    def _known(self, of: Of) -> Tensor:
        """The scores or bounds of all contexts under each round's model, (B, N, 1, L)."""
        given = self._past.contexts[:, None], self._past.groups[:, None]
        if of == "score":
            known = self._model.score(*given)
        else:
            known = self._model.bounds(*given)[of == "upper"]
        return known.index_select(1, self._model_of_round)[:, :, None]

    @cached_property
    def _mask(self) -> Tensor:
        """Which contexts count for each value, (B, N, M, L) bool."""
        groups, rounds = (part[:, None, None] for part in self._past[1:])
        member = (groups == self._groups[..., None]) & (groups >= 0)
        mask = member & (self._start < rounds) & (rounds <= self._stop)
        if self._max_contexts is not None:
            earlier = member & (rounds < self._now)
            number = earlier.flip(3).cumsum(3).flip(3)  # 1 for the group's last before the round
            mask &= number <= self._max_contexts
        return mask
