"""Both regrets of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from torch import Tensor

from fairbandit.metrics.base import Judged, Metric
from fairbandit.registry import register

REGRETS: Mapping[str, str] = MappingProxyType(
    {"standard_regret": "standard_pseudo_regret", "fair_regret": "fair_pseudo_regret"}
)
"""The metrics that every run records: their names, which are also their columns in the round log,
and what summaries and curves call their sums."""


@register("metric", "standard_regret")
class StandardRegret(Metric):
    """True reward that a pick loses: max_a ⟨θ, x_a⟩ − ⟨θ, x_pick⟩."""

    reference = "Grazzi et al. 2022, Remark 1"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        expected = judged.pools.expected
        return judged.best(expected) - judged.of_pick(expected)


@register("metric", "fair_regret")
class FairRegret(Metric):
    """True relative rank that a pick loses: max_a F(x_a) − F(x_pick)."""

    reference = "Grazzi et al. 2022, Definition 2"
    needs_truth = True

    def _values(self, judged: Judged) -> Tensor:
        ranks = judged.pools.ranks
        return judged.best(ranks) - judged.of_pick(ranks)
