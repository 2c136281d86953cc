"""A metric with a parameter and sums, in one file."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.history import Problem
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

    def init(self, problem: Problem) -> Tensor:
        """The picks of the group so far, (B, 1)."""
        return problem.zeros(problem.replicas, 1)

    def _values(self, judged: Judged, picked: Tensor) -> tuple[Tensor, Tensor]:
        hits = (judged.gather_picks(judged.pools.groups) == self.group).double()
        picked = picked + hits.cumsum(1)
        rounds = torch.arange(judged.first, judged.first + hits.shape[1], device=hits.device)
        return picked / rounds, picked[:, -1:]
