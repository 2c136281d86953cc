"""The regret against the best rule that sees candidates in turn."""

from __future__ import annotations

from torch import Tensor

from fairbandit.metrics.base import Judged, Metric
from fairbandit.registry import register
from fairbandit.selectors.stopping import hazards, thresholds


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
