"""A metric with a parameter and a state, in one file."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.history.problem import Problem
from fairbandit.metrics import Judged, Metric


@register("metric", "group_share")
class GroupShare(Metric):
    """Share of one group among all picks up to a round.

    Args:
        group: the group's code.
    """

    reduce = "last"
    lower_is_better = False

    def __init__(self, *, group: int = 0) -> None:
        self.group = group

    def bind(self, problem: Problem) -> None:
        """Starts with no picks."""
        super().bind(problem)
        self._picked = problem.zeros(problem.replicas)

    def _values(self, judged: Judged) -> Tensor:
        hits = (judged.gather_picks(judged.pools.groups) == self.group).double()
        picked = self._picked[:, None] + hits.cumsum(1)
        self._picked = picked[:, -1].clone()
        rounds = torch.arange(judged.first, judged.first + hits.shape[1], device=hits.device)
        return picked / rounds

    def state(self) -> dict[str, Any]:
        """The picks of the group so far, (B,)."""
        return {"picked": self._picked}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from such picks."""
        self._picked = state["picked"]
