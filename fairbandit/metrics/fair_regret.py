"""The regret of Definition 2: true relative rank lost."""

from __future__ import annotations

from torch import Tensor

from fairbandit.metrics.base import Judged, Metric
from fairbandit.registry import register


@register("metric", "fair_regret")
class FairRegret(Metric):
    """True relative rank that a pick loses: max_a F(x_a) − F(x_pick)."""

    reference = "Grazzi et al. 2022, Definition 2"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        ranks = judged.pools.ranks
        return judged.best(ranks) - judged.gather_picks(ranks)
