"""Selectors: pick one candidate of each pool from the index."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Part
from fairbandit.parts.splits import PAPER
from fairbandit.registry import base, register
from fairbandit.streams import Purpose


@base("selector")
class Selector(Part):
    """Picks from the index; a subclass writes `_select`.

    A part never changes a tensor that it was given: the index, the ties and `present` are others'
    too.
    """

    def select(self, first: int, index: Tensor, tie: Tensor, present: Tensor) -> Tensor:
        """Picks one place of each pool.

        Args:
            first: the first of N consecutive rounds.
            index: (B, N, K), to be maximised.
            tie: the largest index that ties with each candidate's, (B, N, K).
            present: which places hold a candidate, (B, N, K) bool.

        Returns:
            Actions, (B, N) int64, each a place that is present.

        Raises:
            FairbanditError: a pool without candidates, or a pick that is no candidate.
        """
        actions = self._select(first, index, tie, present)
        place = actions.clamp(0, present.shape[2] - 1)
        right = present.gather(2, place.unsqueeze(2)).squeeze(2).logical_and_(place == actions)
        if not bool(right.all()):
            b, n = (~right).nonzero()[0].tolist()
            where = f"at replica {self.problem.streams.replicas[b]}, round {first + n}"
            if not bool(present[b, n].any()):
                raise FairbanditError(f"the pool {where} has no candidates")
            raise FairbanditError(
                f"selector {self.part_name!r} picked place {int(actions[b, n])} {where}; expected "
                f"one of {present[b, n].nonzero()[:, 0].tolist()}"
            )
        return actions

    @abstractmethod
    def _select(self, first: int, index: Tensor, tie: Tensor, present: Tensor) -> Tensor:
        """The places to pick, (B, N) int64."""


@register("selector", "argmax")
class Argmax(Selector):
    """The candidate of greatest index; ties are broken uniformly at random.

    a_t ~ U[argmax_a index_a] (Algorithms 1 and 2, line 7); an empty place is never picked.
    """

    reference = PAPER
    draws = True

    def _select(self, first: int, index: Tensor, tie: Tensor, present: Tensor) -> Tensor:
        greatest, actions = index.where(present, -torch.inf).max(2, keepdim=True)
        best = (tie >= greatest) & present
        if int(best.sum()) == actions.numel():  # no ties
            return actions[..., 0]
        order = best.cumsum(2)
        draw = self.problem.streams[Purpose.SELECTOR].uniform(first, index.shape[1], 1)
        chosen = (draw * order[..., -1:]).floor().to(torch.int64) + 1
        return (best & (order == chosen)).to(torch.uint8).argmax(2)
