"""Metrics that compare the probabilities of picks with true merit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from fairbandit.environments.base import Pools
from fairbandit.metrics.base import Judged, Metric
from fairbandit.registry import register
from fairbandit.selectors.inclusion import capped_shares
from fairbandit.selectors.merit import MeritFunction

ROUNDING = 1e-12
"""The relative difference up to which two probabilities count as equal. For weights of 0 or 1,
equal probabilities are exactly equal, and others differ by much more."""


class Merit(Enum):
    """The quantity by which one candidate is better than another."""

    reward = "the true reward"
    rank = "the true relative rank within the group"

    def values(self, pools: Pools) -> Tensor:
        """Returns the merit of every candidate, (B, N, K)."""
        return pools.expected if self is Merit.reward else pools.ranks


@register("metric", "exposure_regret")
@dataclass(kw_only=True, eq=False)
class ExposureRegret(MeritFunction, Metric):
    """The distance of probabilities from proportionality to true merit: Σ_a |π*_a − π_a|.

    π*_a = f(μ_a) / Σ_b f(μ_b), where μ is the true reward or the true relative rank and f the merit
    function of the selector `proportional`, with the same parameters. π_a are the probabilities of
    the policy's picks, given the past and the round's draws of its estimator and its rank. This is
    the fairness regret of Wang et al., which judges the policy played in each round. The value of a
    round is from 0 to 2. For m picks, π*_a = min(1, c·f(μ_a)) with c such that they sum to m, and
    the value is from 0 to 2m.

    Args:
        of: the argument of f, `reward` or `rank`; the other arguments are parameters of f.
    """

    reference = "Wang, Bai, Sun, Joachims, Fairness of Exposure in Stochastic Bandits, ICML 2021"
    needs_truth = True

    of: Merit = Merit.reward

    def _values(self, judged: Judged) -> Tensor:
        pools = judged.pools
        present = pools.groups >= 0
        merits = self.merits(self.of.values(pools), present)
        amount = merits.new_full((1, 1, 1), judged.picks)
        fair = capped_shares(merits, present.to(merits.dtype), amount)
        return (fair - judged.selection.inclusion).abs().sum(2)


@register("metric", "preference_violations")
@dataclass(kw_only=True, eq=False)
class PreferenceViolations(Metric):
    """Rounds in which a candidate is preferred to another of equal or greater merit.

    The value of a round is 1 if it has two candidates i and j with π_i > π_j although the true
    merit of i is not greater than the true merit of j, and 0 otherwise; π are the probabilities of
    the policy's picks. So equal merit demands equal probability. Uniform picks never violate a
    preference. Greedy picks violate a preference in almost every round with a wrong estimate.

    Probabilities are given the past. The metric is null for a policy whose estimator draws a
    reward model for each round, as in posterior sampling: its probabilities depend on the draw.

    Args:
        of: the merit, `reward` or `rank`.
    """

    reference = (
        "Joseph, Kearns, Morgenstern and Roth, Fairness in Learning: Classic and Contextual "
        "Bandits, NIPS 2016"
    )
    needs_truth = True
    needs_fixed_models = True

    of: Merit = Merit.reward

    def _values(self, judged: Judged) -> Tensor:
        pools, present = judged.pools, judged.pools.groups >= 0
        merit = self.of.values(pools)
        # by ascending merit, then by descending probability; empty places last
        probability = judged.selection.inclusion.where(present, torch.inf)
        probability, order = probability.sort(2, descending=True)
        merit = merit.where(present, torch.inf).gather(2, order)
        probability = probability.gather(2, merit.sort(dim=2, stable=True).indices)
        highest = probability.cummax(2).values
        return (highest * (1 - ROUNDING) > probability).any(2).double()
