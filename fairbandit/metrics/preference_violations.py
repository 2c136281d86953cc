"""Rounds in which a worse candidate is more likely to be picked than a better one."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.metrics.base import Judged, Metric
from fairbandit.metrics.merit import Merit
from fairbandit.registry import register

ROUNDING = 1e-12
"""Relative difference up to which two probabilities count as equal. Where weights are 0 or 1, equal
probabilities are equal exactly, and others are much further apart."""


@register("metric", "preference_violations")
class PreferenceViolations(Metric):
    """Rounds in which someone is preferred to a candidate of no less merit.

    The value of a round is 1 if it has two candidates i and j with π_i > π_j although the true
    merit of i is not above that of j, and 0 otherwise; π are the probabilities with which the
    policy picks. So equal merit demands equal probability. A uniform pick violates no preference.
    A pick of the best by an estimate does so in almost every round in which the estimate is wrong.

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
