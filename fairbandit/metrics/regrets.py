"""Both regrets of the paper."""

from __future__ import annotations

from torch import Tensor

from fairbandit.metrics.base import Judged, Metric
from fairbandit.registry import register


@register("metric", "standard_regret")
class StandardRegret(Metric):
    """True reward that a pick loses: max_a ⟨θ, x_a⟩ − ⟨θ, x_pick⟩.

    Of m picks, it is the sum of the m greatest true rewards in the pool less that of the picks'.
    """

    reference = "Grazzi et al. 2022, Remark 1"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        expected = judged.pools.expected
        return judged.best(expected) - judged.total(expected)


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
        ranks = judged.pools.ranks
        return judged.best(ranks) - judged.total(ranks)
