"""Ranks: turn a pool's scores into the index to be maximised."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError, typed
from fairbandit.estimators.models import NoBounds, all_finite
from fairbandit.estimators.ties import Approximate
from fairbandit.ranks.scored import Scored
from fairbandit.registry import base
from fairbandit.registry.part import Part


@base("rank")
class Rank(Part):
    """Gives every candidate an index; a subclass writes `_index`."""

    max_contexts: int | None = None
    """The number of last contexts of each group that `scored.past` holds; None for all contexts in
    the rank window. With a limit, the memory of a run does not grow with its rounds."""

    def index(self, scored: Scored) -> Approximate:
        """The index of every candidate of N rounds, with its slack.

        Returns:
            Finite values (B, N, K) float64, also at empty places.

        Raises:
            FairbanditError: the index or its slack has the wrong shape or is not finite.
        """
        index = self._index(scored)
        if isinstance(index, Tensor):
            index = Approximate(index)
        if not isinstance(index, Approximate):  # such as 2 * scored.scores, a longer tuple
            raise FairbanditError(
                f"{self} gave {typed(index)}; expected a tensor, or Approximate(value, slack)"
            )
        self._check("an index", index.value, scored)
        if isinstance(index.slack, Tensor):
            self._check("a slack", index.slack, scored)
        least = index.slack.amin() if isinstance(index.slack, Tensor) else index.slack
        if not least >= 0:
            raise FairbanditError(f"{self} gave a slack below 0")
        return index

    def bounds(self, scored: Scored, index: Approximate) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index under the true rewards, (B, N, K) float64 each.

        Args:
            scored: the candidates.
            index: the index of the same candidates.

        Raises:
            NoBounds: the rank lacks bounds, or the reward model lacks bounds that the rank reads.
            FairbanditError: an upper bound is below its lower bound.
        """
        low, high = self._bounds(scored, index)
        self._check("bounds", low, scored, finite=False)
        self._check("bounds", high, scored, finite=False)
        if not bool((low <= high)[scored.present].all()):
            raise FairbanditError(f"{self} gave bounds that cross")
        return low, high

    def _check(self, name: str, values: Tensor, scored: Scored, finite: bool = True) -> None:
        if values.shape != scored.groups.shape or values.dtype != torch.float64:
            raise FairbanditError(
                f"{self} gave {name} of shape {tuple(values.shape)} and "
                f"{values.dtype}; expected {tuple(scored.groups.shape)} and torch.float64"
            )
        if finite and not all_finite(values):
            b, n, k = (~values.isfinite()).nonzero()[0].tolist()
            raise FairbanditError(
                f"{self} gave {name} of {values[b, n, k].item()} at replica "
                f"{scored.problem.streams.replicas[b]}, round {scored.first + n}, place "
                f"{k}; expected finite values"
            )

    @abstractmethod
    def _index(self, scored: Scored) -> Tensor | Approximate:
        """The index, (B, N, K); a plain tensor has a slack of 0."""

    def _bounds(self, scored: Scored, index: Approximate) -> tuple[Tensor, Tensor]:
        """Bounds of the index, (B, N, K) each; see `bounds`."""
        raise NoBounds(
            f"{self} has no bounds on its index; only ranks that implement `_bounds`, such as "
            "`identity` and `interval_cdf`, have bounds"
        )
