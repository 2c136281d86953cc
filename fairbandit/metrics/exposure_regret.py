"""How far probabilities are from exposure in proportion to true merit."""

from __future__ import annotations

from torch import Tensor

from fairbandit.maths.merit import MeritForm, MeritFunction
from fairbandit.metrics.base import Judged, Metric
from fairbandit.metrics.merit import Merit
from fairbandit.registry import register


@register("metric", "exposure_regret")
class ExposureRegret(MeritFunction, Metric):
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
        merits = self.merits(self.of.values(pools), pools.groups >= 0)
        fair = merits / merits.sum(2, keepdim=True)
        return (fair - judged.probabilities).abs().sum(2)
