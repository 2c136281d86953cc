"""The gap between the mean true rewards of the groups' picks."""

from __future__ import annotations

from torch import Tensor

from fairbandit.metrics.group_metric import GroupMetric, spread
from fairbandit.registry import register


@register("metric", "group_reward_gap")
class GroupRewardGap(GroupMetric):
    """How much better the picks of one group are than those of another.

    max_g m_g − min_g m_g, where m_g is the mean true reward of the picks of group g in rounds
    1 … t. Groups without picks have no mean; how seldom a group is picked is for `parity_gap`.
    """

    needs_truth = True

    def _judge(self, picked: Tensor, received: Tensor, *gained: Tensor) -> Tensor:
        return spread(gained[0] / picked, picked > 0)
