"""Ranks: turn a pool's scores into the index to be maximised."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Part
from fairbandit.parts.candidates import Candidates
from fairbandit.parts.splits import PAPER
from fairbandit.registry import base, register

FINITE = torch.finfo(torch.float64).max
"""The largest finite number."""


@base("rank")
class Rank(Part):
    """Gives every candidate an index; a subclass writes `_index`.

    A rank that keeps a state of its own updates it in `observe`, which sees every round once and
    in order, also those in which all candidates tie and no index is asked for.

    A part never changes a tensor that it was given: not the candidates' (`scores`, `contexts`,
    `past.count`, …), nor those of the history or the pools that it observes. An index that was
    returned stays as it is, and requires no grad.
    """

    memory: int | None = None
    """How many of its last contexts `candidates.past` holds of each group; None if all in the
    round's window. With a bounded memory, that of a run does not grow with its rounds."""
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """The least and the greatest index."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.has_bounds = cls._bounds is not Rank._bounds

    def index(self, candidates: Candidates) -> Tensor:
        """The index of every candidate.

        Args:
            candidates: N rounds of scored candidates.

        Returns:
            (B, N, K) float64, finite and in `range`; empty places hold anything finite.

        Raises:
            FairbanditError: an index of the wrong shape, not finite or out of range.
        """
        index = self._index(candidates)
        if index.shape != candidates.groups.shape or index.dtype != torch.float64:
            raise FairbanditError(
                f"rank {self.part_name!r} gave an index of shape {tuple(index.shape)} and "
                f"{index.dtype}; expected {tuple(candidates.groups.shape)} and torch.float64"
            )
        low, high = self.range
        least, greatest = (float(end) for end in index.aminmax())  # NaN if any is
        if not (max(low, -FINITE) <= least and greatest <= min(high, FINITE)):
            good = (index >= low) & (index <= high) & index.isfinite()
            b, n, k = (~good).nonzero()[0].tolist()
            raise FairbanditError(
                f"rank {self.part_name!r} gave {index[b, n, k].item()} at replica "
                f"{self.problem.streams.replicas[b]}, round {candidates.first + n}, place {k}; "
                f"expected finite values from {low} to {high}"
            )
        return index

    def set_index(self, candidates: Candidates, learned: bool) -> None:
        """Shows the selector the index of every candidate, up to which it ties, and its bounds.

        Args:
            candidates: N rounds of scored candidates.
            learned: false while a policy that learns has no reward to learn from. The rank is then
                not asked: all candidates tie with index 0, of which nothing is known.
        """
        if learned:
            index = self.index(candidates)
            candidates.set_index(index, self.upper_index(index, candidates), self.bounds)
        else:
            index = torch.zeros_like(candidates.scores)
            candidates.set_index(index, index, Candidates.bounds)

    def upper_index(self, index: Tensor, candidates: Candidates) -> Tensor:
        """Up to which index each candidate ties: its own index, unless overridden.

        Args:
            index: (B, N, K), as `index` gave it.
            candidates: the same candidates.

        Returns:
            (B, N, K). A candidate is among the best when no index is above its upper index.
        """
        return index

    def bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the index that the true rewards give.

        Args:
            candidates: N rounds of scored candidates, with their index.

        Returns:
            The lower and the upper bounds, (B, N, K) float64 each.

        Raises:
            FairbanditError: a rank without bounds, or bounds of which the upper is below the lower.
        """
        low, high = self._bounds(candidates)
        shape = candidates.groups.shape
        if (
            low.shape != shape
            or high.shape != shape
            or not bool((low <= high)[candidates.present].all())
        ):
            raise FairbanditError(
                f"rank {self.part_name!r} gave bounds of shapes {tuple(low.shape)} and "
                f"{tuple(high.shape)}; expected two of {tuple(shape)}, none of which cross"
            )
        return low, high

    @abstractmethod
    def _index(self, candidates: Candidates) -> Tensor:
        """The index, (B, N, K)."""

    def _bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Bounds of the index, (B, N, K) each; see `bounds`."""
        raise FairbanditError(
            f"rank {self.part_name!r} has no bounds on its index; those that have: "
            f"{', '.join(registry.with_bounds('rank'))}"
        )


@register("rank", "empirical_cdf")
class EmpiricalCdf(Rank):
    """Share of the group's past contexts whose score, under this round's model, is no higher.

    F̂_t(⟨θ, x⟩, g) = N⁻¹ Σ 1{⟨θ, x′⟩ ≤ ⟨θ, x⟩} over the N past contexts x′ of group g in the
    round's window (Algorithm 2, line 6). A candidate of a group that the window lacks gets a rank
    drawn from U(0, 1), each candidate its own: the paper leaves it undefined.
    """

    reference = PAPER
    needs = frozenset({"contexts"})
    draws = True

    def _index(self, candidates: Candidates) -> Tensor:
        past = candidates.past
        share = past.count_le(candidates.scores) / past.count
        return candidates.drawn_where(past.count == 0, share)


@register("rank", "oracle_cdf")
class OracleCdf(Rank):
    """The group's true reward CDF at the candidate's score.

    F_g(⟨θ, x⟩), the rank of the paper's Fair-Greedy (Oracle CDF) and of the GMF policy (App. D.2).
    """

    reference = PAPER
    needs_truth = True

    def _index(self, candidates: Candidates) -> Tensor:
        assert self.problem.truth is not None
        return self.problem.truth.cdf(candidates.groups, candidates.upper_scores)


@register("rank", "identity")
class Identity(Rank):
    """The score itself: rewards of different groups are compared as they are."""

    reference = PAPER
    range = (-float("inf"), float("inf"))

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores

    def upper_index(self, index: Tensor, candidates: Candidates) -> Tensor:
        """The upper scores; see `maths.ties`."""
        return candidates.upper_scores

    def _bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        return candidates.bounds()
