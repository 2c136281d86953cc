"""Exposure in proportion to merit, and how far a policy is from it."""

from __future__ import annotations

from torch import Tensor

from fairbandit.maths.merit import MeritForm, MeritFunction
from fairbandit.metrics.base import Judged, Metric
from fairbandit.metrics.merit import Merit
from fairbandit.registry import register


@register("metric", "exposure_regret")
class ExposureRegret(Metric):
    """How far probabilities are from those in proportion to true merit: Σ_a |π*_a − π_a|.

    π*_a = f(μ_a) / Σ_b f(μ_b), where μ is the true reward or the true relative rank and f the merit
    function of selector `proportional`, with the same parameters. π_a are the probabilities with
    which the policy picks, given the past and given the round's draws of its estimator and its
    rank: the paper's fairness regret, which judges the policy that was played in each round. A
    round's value is from 0 to 2.

    Args:
        of: what merit is a function of, `reward` or `rank`.
        merit: the form of f: `identity`, `power` or `exponential`.
        exponent: p > 0 (power).
        rate: β > 0 (exponential).
        floor: γ > 0; merits below it count as γ.

    Raises:
        FairbanditError: a parameter out of range.
    """

    reference = "Wang, Bai, Sun, Joachims, Fairness of Exposure in Stochastic Bandits, ICML 2021"
    needs_truth = True
    needs_probabilities = True

    def __init__(
        self,
        *,
        of: Merit = Merit.reward,
        merit: MeritForm = MeritForm.identity,
        exponent: float = 1.0,
        rate: float = 1.0,
        floor: float = 0.01,
    ) -> None:
        self._merit = MeritFunction(merit, exponent, rate, floor)
        self.of, self.merit, self.exponent = of, merit, exponent
        self.rate, self.floor = rate, floor

    def _values(self, judged: Judged) -> Tensor:
        pools = judged.pools
        weights = self._merit.weights(self.of.values(pools), pools.groups >= 0)
        fair = weights / weights.sum(2, keepdim=True)
        return (fair - judged.probabilities).abs().sum(2)
