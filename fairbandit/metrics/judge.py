"""Both regrets, and the judge that records decided rounds with the values of all metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairbandit.environments.base import Pools
from fairbandit.history import Problem
from fairbandit.metrics.base import Judged, Metric, members
from fairbandit.registry import register
from fairbandit.selectors import Selection
from fairbandit.selectors.stopping import hazards, thresholds

REGRETS = ("standard_regret", "fair_regret")
"""The metrics that every run records. Both are pseudo-regrets: they compare true rewards or true
ranks, without noise."""


@register("metric", "standard_regret")
class StandardRegret(Metric):
    """The loss of a pick in true reward: max_a ⟨θ, x_a⟩ − ⟨θ, x_pick⟩.

    For m picks, it is the sum of the m greatest true rewards in the pool minus the picks' sum.
    """

    reference = "Grazzi et al. 2022, Remark 1"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        return judged.lost(judged.pools.expected)


@register("metric", "fair_regret")
class FairRegret(Metric):
    """The loss of a pick in true relative rank: max_a F(x_a) − F(x_pick).

    For m picks, it is the sum of the m greatest true ranks in the pool minus the picks' sum. If
    ranks are independent and uniform, the mean sum of the m greatest of n ranks is
    Σ_{j≤m} (n + 1 − j)/(n + 1).
    """

    reference = "Grazzi et al. 2022, Definition 2"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        return judged.lost(judged.pools.ranks)


@dataclass(frozen=True)
class Played:
    """N finished rounds of B replicas.

    Attributes:
        first: the number of the first round, from 1.
        replicas: the replicas' numbers.
        actions: the places picked, (B, N) int64; for several picks from a pool, (B, N, m), with −1
            in slots that a small pool leaves empty. The next five fields have the same shape.
        groups: the picks' groups, int64; −1 in empty slots.
        rewards: the picks' noisy rewards; NaN in empty slots, like the next three fields.
        expected, ranks: the picks' true rewards and relative ranks; NaN without a ground truth.
        propensities: the probability of each pick.
        metrics: the values of every metric by its column, (B, N) each.
        received: the number of candidates of each group in these rounds, (B, G) int64.
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
        """The number of the last round, from 1: first + N − 1."""
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
    """Judges rounds, piece by piece in order, by both regrets and the metrics of further columns.

    Without a ground truth, true rewards, ranks and metrics that need them are NaN. Metrics that
    need fixed models are NaN if the estimator draws a reward model for each round.
    """

    def __init__(
        self, metrics: Mapping[str, Metric], problem: Problem, *, draws_models: bool = False
    ) -> None:
        regrets: list[Metric] = [StandardRegret(), FairRegret()]
        self.metrics = {**dict(zip(REGRETS, regrets, strict=True)), **metrics}
        self._problem, self._draws_models = problem, draws_models
        self._sums = {column: metric.init(problem) for column, metric in self.metrics.items()}

    def judge(self, first: int, pools: Pools, selection: Selection) -> Played:
        """Judges the picks of the next N rounds, which begin with round `first`, counted from 1."""
        problem = self._problem
        if problem.truth is None:
            unknown = torch.full_like(pools.expected, torch.nan)
            pools = replace(pools, expected=unknown, ranks=unknown)
        judged, values = Judged(problem, first, pools, selection, self._draws_models), {}
        for column, metric in self.metrics.items():
            values[column], self._sums[column] = metric.values(judged, self._sums[column])
        return Played(
            first=first,
            replicas=problem.streams.replicas,
            actions=selection.actions,
            groups=judged.gather_picks(pools.groups),
            rewards=judged.gather_picks(pools.rewards),
            expected=judged.gather_picks(pools.expected),
            ranks=judged.gather_picks(pools.ranks),
            propensities=selection.propensities,
            metrics=values,
            received=members(pools.groups, problem.groups).sum((1, 2)),
        )


@register("metric", "rolling_regret")
class RollingRegret(Metric):
    """The loss against the best rule for candidates who come one at a time: V(m, n) − Σ ranks.

    V(m, n) is the largest expected sum of ranks of m picks among n candidates whose true ranks are
    independent and uniform, and which are taken or let go in the order of their arrival; see
    `fairbandit.selectors.stopping`. The sum is of the picks' true relative ranks. The value is 0 on
    average for `rolling` under the true ranks, and may be negative in a round. If the number n is
    not known to the policy beforehand, the regret includes the price of that. `fair_regret`
    compares with the m best in hindsight, Σ_{j≤m} (n + 1 − j)/(n + 1) on average.
    """

    reference = "Gilbert and Mosteller, Recognizing the maximum of a sequence, JASA 1966 (V)"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        present = judged.pools.groups >= 0
        k, m = present.shape[2], judged.picks
        values = thresholds(hazards("fixed", k), m).values[:, m].to(present.device)
        best = values[(k - present.sum(2)).clamp(max=k - 1)]
        return best - judged.total(judged.pools.ranks)
