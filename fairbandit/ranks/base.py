"""Ranks: turn a pool's scores into the index to be maximised."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.errors import FairbanditError
from fairbandit.models import NoBounds
from fairbandit.part import Part
from fairbandit.registry import base


@base("rank")
class Rank(Part):
    """Gives every candidate an index; a subclass writes `_index`."""

    max_contexts: int | None = None
    """How many of its last contexts `candidates.past` holds of each group; None if all in the
    round's window. With a bound, the memory of a run does not grow with its rounds."""

    def index(self, candidates: Candidates) -> Tensor:
        """The index of every candidate of N rounds.

        Returns:
            (B, N, K) float64, finite, at empty places too.

        Raises:
            FairbanditError: an index of the wrong shape or not finite.
        """
        index = self._index(candidates)
        self._check_shape("an index", index, candidates)
        finite = index.isfinite()
        if not bool(finite.all()):
            b, n, k = (~finite).nonzero()[0].tolist()
            raise FairbanditError(
                f"{self} gave {index[b, n, k].item()} at replica "
                f"{candidates.problem.streams.replicas[b]}, round {candidates.rounds[n]}, place "
                f"{k}; expected finite values"
            )
        return index

    def tie_ceiling(self, candidates: Candidates, index: Tensor) -> Tensor:
        """The greatest number that each index may be, were it not rounded, (B, N, K).

        With the ceiling c, an index i stands for any number from 2i − c to c, and ties with all
        those whose numbers overlap with these.

        Raises:
            FairbanditError: a ceiling of the wrong shape.
        """
        ceiling = self._tie_ceiling(candidates, index)
        self._check_shape("a tie ceiling", ceiling, candidates)
        return ceiling

    def bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index that the true rewards give, (B, N, K) float64 each.

        Raises:
            NoBounds: the rank has no bounds, or the reward model none that it reads.
            FairbanditError: bounds of which the upper is below the lower.
        """
        low, high = self._bounds(candidates)
        self._check_shape("bounds", low, candidates)
        self._check_shape("bounds", high, candidates)
        if not bool((low <= high)[candidates.present].all()):
            raise FairbanditError(f"{self} gave bounds that cross")
        return low, high

    def _check_shape(self, what: str, values: Tensor, candidates: Candidates) -> None:
        if values.shape != candidates.groups.shape or values.dtype != torch.float64:
            raise FairbanditError(
                f"{self} gave {what} of shape {tuple(values.shape)} and "
                f"{values.dtype}; expected {tuple(candidates.groups.shape)} and torch.float64"
            )

    @abstractmethod
    def _index(self, candidates: Candidates) -> Tensor:
        """The index, (B, N, K)."""

    def _tie_ceiling(self, candidates: Candidates, index: Tensor) -> Tensor:
        """See `tie_ceiling`; the index itself, unless overridden."""
        return index

    def _bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Bounds of the index, (B, N, K) each; see `bounds`."""
        raise NoBounds(
            f"{self} has no bounds on its index; a rank has them that writes "
            "`_bounds`, as `identity` and `interval_cdf` do"
        )


def tie_tolerance(candidates: Candidates) -> Tensor:
    """The most by which scores of each pool may differ that tie, (B, N, 1)."""
    return (2 * candidates.errors).masked_fill(~candidates.present, 0).amax(2, keepdim=True)
