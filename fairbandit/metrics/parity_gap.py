"""The gap between the groups' selection rates."""

from __future__ import annotations

from torch import Tensor

from fairbandit.metrics.group_metric import GroupMetric, spread
from fairbandit.registry import register


@register("metric", "parity_gap")
class ParityGap(GroupMetric):
    """The greatest selection rate of a group less the least: demographic parity is 0.

    max_g N_g/C_g − min_g N_g/C_g, where N_g counts the picks and C_g the candidates of group g in
    rounds 1 … t; groups without candidates so far have no rate. The curve `parity_gap` that every
    run has is the gap of rates that are means over the replicas; this is the gap of each replica.
    """

    reference = "Dwork, Hardt, Pitassi, Reingold, Zemel, Fairness through Awareness, ITCS 2012"

    def _judge(self, picked: Tensor, received: Tensor, *gained: Tensor) -> Tensor:
        return spread(picked / received, received > 0)
