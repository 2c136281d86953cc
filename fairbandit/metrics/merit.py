"""Metrics that compare the probabilities of picks with true merit."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

from fairbandit.environments.base import Pools
from fairbandit.maths.inclusion import capped_shares
from fairbandit.maths.merit import MeritForm, MeritFunction
from fairbandit.metrics.base import Judged, Metric
from fairbandit.registry import register

ROUNDING = 1e-12
"""Relative difference up to which two probabilities count as equal. Where weights are 0 or 1, equal
probabilities are equal exactly, and others are much further apart."""


class Merit(Enum):
    """What makes one candidate better than another."""

    reward = "the true reward"
    rank = "the true relative rank within the group"

    def values(self, pools: Pools) -> Tensor:
        """The merit of every candidate, (B, N, K)."""
        return pools.expected if self is Merit.reward else pools.ranks


@register("metric", "exposure_regret")
class ExposureRegret(MeritFunction, Metric):
    """How far probabilities are from those in proportion to true merit: Σ_a |π*_a − π_a|.

    π*_a = f(μ_a) / Σ_b f(μ_b), where μ is the true reward or the true relative rank and f the merit
    function of selector `proportional`, with the same parameters. π_a are the probabilities with
    which the policy picks, given the past and given the round's draws of its estimator and its
    rank: the paper's fairness regret, which judges the policy that was played in each round. A
    round's value is from 0 to 2. Of m picks, π*_a = min(1, c·f(μ_a)) with the c for which they sum
    to m, and a value is from 0 to 2m.

    Args:
        of: what merit is a function of, `reward` or `rank`; the others are those of f.
    """

    reference = "Wang, Bai, Sun, Joachims, Fairness of Exposure in Stochastic Bandits, ICML 2021"
    needs_truth = True

    def __init__(
        self,
        *,
        of: Merit = Merit.reward,
        merit: MeritForm = MeritForm.identity,
        exponent: float = 1.0,
        rate: float = 1.0,
        floor: float = 0.01,
    ) -> None:
        super().__init__(merit=merit, exponent=exponent, rate=rate, floor=floor)
        self.of = of

    def _values(self, judged: Judged) -> Tensor:
        pools = judged.pools
        present = pools.groups >= 0
        merits = self.merits(self.of.values(pools), present)
        amount = merits.new_full((1, 1, 1), judged.picks)
        fair = capped_shares(merits, present.to(merits.dtype), amount)
        return (fair - judged.probabilities).abs().sum(2)


@register("metric", "preference_violations")
class PreferenceViolations(Metric):
    """Rounds in which someone is preferred to a candidate of no less merit.

    The value of a round is 1 if it has two candidates i and j with π_i > π_j although the true
    merit of i is not above that of j, and 0 otherwise; π are the probabilities with which the
    policy picks, one or several. So equal merit demands equal probability. A uniform pick violates
    no preference. A pick of the best by an estimate does so in almost every round in which the
    estimate is wrong.

    Probabilities hold given the past. The metric is null for a policy whose estimator draws a
    reward model for each round, as in posterior sampling, since they then hold given the draw too.

    Args:
        of: what merit is, `reward` or `rank`.
    """

    reference = (
        "Joseph, Kearns, Morgenstern and Roth, Fairness in Learning: Classic and Contextual "
        "Bandits, NIPS 2016"
    )
    needs_truth = True
    needs_fixed_models = True

    def __init__(self, *, of: Merit = Merit.reward) -> None:
        self.of = of

    def _values(self, judged: Judged) -> Tensor:
        pools, present = judged.pools, judged.pools.groups >= 0
        merit = self.of.values(pools)
        # by ascending merit, those of equal merit by descending probability, empty places last
        probability = judged.probabilities.where(present, torch.inf)
        probability, order = probability.sort(2, descending=True)
        merit = merit.where(present, torch.inf).gather(2, order)
        probability = probability.gather(2, merit.sort(dim=2, stable=True).indices)
        highest = probability.cummax(2).values
        return (highest * (1 - ROUNDING) > probability).any(2).double()
