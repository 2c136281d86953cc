"""Metrics of what the groups have had so far."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbandit.metrics.base import Judged, Metric
from fairbandit.metrics.reduction import Reduce
from fairbandit.part import Problem


class GroupMetric(Metric):
    """A quantity of the groups' sums over rounds 1 … t; a subclass writes `_judge`."""

    reduce: ClassVar[Reduce] = "last"

    def bind(self, problem: Problem) -> None:
        """Starts from sums of 0; see `Metric`."""
        super().bind(problem)
        shape = problem.replicas, 3 if self.needs_truth else 2, 1, problem.groups
        self._sums = problem.zeros(*shape)

    def _values(self, judged: Judged) -> Tensor:
        groups = judged.pools.groups
        every = torch.arange(self.problem.groups, device=groups.device)
        picked = (judged.gather_picks(groups)[..., None] == every).to(torch.float64)
        terms = [picked, (groups[..., None] == every).sum(2).to(torch.float64)]
        if self.needs_truth:
            terms.append(picked * judged.gather_picks(judged.pools.expected)[..., None])
        sums = self._sums + torch.stack(terms, 1).cumsum(2)
        self._sums = sums[:, :, -1:].clone()
        return self._judge(*sums.unbind(1))

    @abstractmethod
    def _judge(self, picked: Tensor, received: Tensor, *gained: Tensor) -> Tensor:
        """Judges the sums after each of N rounds.

        Args:
            picked: how often each group was picked, (B, N, G).
            received: how many candidates it had, (B, N, G).
            gained: the sum of its picks' true rewards, (B, N, G), if the metric needs a truth.

        Returns:
            (B, N).
        """

    def state(self) -> dict[str, Any]:
        """The sums."""
        return {"sums": self._sums}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from the sums of a state; see `Metric`."""
        self._sums = state["sums"]


def spread(values: Tensor, there: Tensor) -> Tensor:
    """The greatest of the values that are there less the least, (B, N, G) to (B, N)."""
    most, least = values.where(there, -torch.inf).amax(2), values.where(there, torch.inf).amin(2)
    return (most - least).where(there.any(2), 0)
