"""Both regrets, and what is recorded of the rounds that were decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fairbandit.environments.base import Pools
from fairbandit.metrics.base import Judged, Metric
from fairbandit.part import Problem
from fairbandit.registry import register
from fairbandit.selectors import Selection

REGRETS = ("standard_regret", "fair_regret")
"""The metrics that every run records. Both are pseudo-regrets: they compare true rewards, and true
ranks, without the noise."""


@register("metric", "standard_regret")
class StandardRegret(Metric):
    """True reward that a pick loses: max_a ⟨θ, x_a⟩ − ⟨θ, x_pick⟩.

    Of m picks, it is the sum of the m greatest true rewards in the pool less that of the picks'.
    """

    reference = "Grazzi et al. 2022, Remark 1"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        return judged.lost(judged.pools.expected)


@register("metric", "fair_regret")
class FairRegret(Metric):
    """True relative rank that a pick loses: max_a F(x_a) − F(x_pick).

    Of m picks, it is the sum of the m greatest true ranks in the pool less that of the picks'. If
    ranks are independent and uniform, the m greatest of n sum to Σ_{j≤m} (n + 1 − j)/(n + 1) on
    average.
    """

    reference = "Grazzi et al. 2022, Definition 2"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        return judged.lost(judged.pools.ranks)


@dataclass(frozen=True)
class Played:
    """N finished rounds of B replicas.

    Attributes:
        first: the first of the rounds, from 1.
        replicas: the replicas' numbers.
        actions: the places picked, (B, N) int64; or, of several picks of a pool, (B, N, m), −1 in
            slots that a small pool leaves empty. The next five are alike.
        groups: the picks' groups, int64; −1 in empty slots.
        rewards: their noisy rewards; NaN in empty slots, as those that follow.
        expected: their true rewards; NaN where the environment has no truth.
        ranks: their true relative ranks; NaN where the environment has no truth.
        propensities: the probability of each pick.
        metrics: the values of every metric by its column, (B, N) each.
        received: candidates of each group in these rounds, (B, G) int64.
    """

    first: int
    replicas: list[int]
    actions: Tensor
    groups: Tensor
    rewards: Tensor
    expected: Tensor
    ranks: Tensor
    propensities: Tensor
    metrics: Mapping[str, Tensor]
    received: Tensor

    @property
    def last(self) -> int:
        """The number of the last round in this piece, from 1: first + N − 1."""
        return self.first + self.actions.shape[1] - 1

    @property
    def standard_regret(self) -> Tensor:
        """Each round's standard regret, (B, N)."""
        return self.metrics["standard_regret"]

    @property
    def fair_regret(self) -> Tensor:
        """Each round's fair regret, (B, N)."""
        return self.metrics["fair_regret"]


class Judge:
    """Judges rounds, piece by piece in order.

    Args:
        metrics: the metrics by their columns; bound here. Both regrets are judged in any case.
        problem: what is played. Without a truth, true rewards and ranks are NaN for all metrics,
            and those that need them are NaN.
        draws_models: whether the policy's estimator draws a reward model for each round. If so,
            metrics that need fixed models are NaN.
    """

    def __init__(
        self, metrics: Mapping[str, Metric], problem: Problem, *, draws_models: bool = False
    ) -> None:
        regrets: list[Metric] = [StandardRegret(), FairRegret()]
        self.metrics = {**dict(zip(REGRETS, regrets, strict=True)), **metrics}
        self._problem, self._draws_models = problem, draws_models
        for metric in self.metrics.values():
            metric.bind(problem)

    def judge(self, first: int, pools: Pools, selection: Selection) -> Played:
        """Judges the picks of the next N rounds, of which the first is round `first` from 1.

        Raises:
            FairbanditError: a metric gives something else than finite numbers of the right shape.
        """
        problem = self._problem
        if problem.truth is None:
            unknown = torch.full_like(pools.expected, torch.nan)
            pools = replace(pools, expected=unknown, ranks=unknown)
        judged = Judged(first, pools, selection, self._draws_models)
        every = torch.arange(problem.groups, device=pools.groups.device)
        return Played(
            first=first,
            replicas=problem.streams.replicas,
            actions=selection.actions,
            groups=judged.gather_picks(pools.groups),
            rewards=judged.gather_picks(pools.rewards),
            expected=judged.gather_picks(pools.expected),
            ranks=judged.gather_picks(pools.ranks),
            propensities=selection.propensities,
            metrics={column: metric.values(judged) for column, metric in self.metrics.items()},
            received=(pools.groups[..., None] == every).sum((1, 2)),
        )

    def state(self) -> dict[str, Any]:
        """What every metric must remember, by its column."""
        return {column: metric.state() for column, metric in self.metrics.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that a judge with the same metrics gave."""
        for column, metric in self.metrics.items():
            metric.load_state(state[column])
