"""How far groups lack a guaranteed share of the picks."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fairbandit.maths.shares import group_shares
from fairbandit.metrics.group_metric import GroupMetric
from fairbandit.part import Problem
from fairbandit.registry import register


@register("metric", "pull_shortfall")
class PullShortfall(GroupMetric):
    """The most that a group has lacked of a guaranteed share of the picks, in picks.

    max_{s ≤ t} max_g (r_g·s − N_g(s)), where N_g(s) counts the picks of group g in rounds 1 … s.
    Groups are owed their share of all rounds, also of those in whose pools they are absent. It is
    below 0 while each group had more than its share.

    Args:
        shares: r, one number from 0 to 1 for all groups, or a list with one for each group in
            their order; they sum to at most 1. None is 0.1 for each group, and 1/(2G) where that
            is less.

    Raises:
        FairbanditError: a value out of range; when bound, a list of another length than there are
            groups, or shares that sum to more than 1.
    """

    reference = (
        "Patil, Ghalme, Nair, Narahari, Achieving Fairness in the Stochastic Multi-armed Bandit "
        "Problem, AAAI 2020"
    )
    reduce = "max"

    def __init__(self, *, shares: Any = None) -> None:
        group_shares(shares)
        self.shares = shares

    def bind(self, problem: Problem) -> None:
        """Starts from sums of 0, with the shares of the groups; see `Metric`."""
        super().bind(problem)
        self._share = self._sums.new_tensor(group_shares(self.shares, problem.groups))

    def _judge(self, picked: Tensor, received: Tensor, *gained: Tensor) -> Tensor:
        rounds = picked.sum(2, keepdim=True)
        return (self._share * rounds - picked).amax(2)
