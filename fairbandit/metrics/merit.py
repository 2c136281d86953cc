"""What makes a candidate good, for metrics that compare probabilities with true merit."""

from __future__ import annotations

from enum import Enum

from torch import Tensor

from fairbandit.environments.base import Pools


class Merit(Enum):
    """What makes one candidate better than another."""

    reward = "the true reward"
    rank = "the true relative rank within the group"

    def values(self, pools: Pools) -> Tensor:
        """The merit of every candidate, (B, N, K)."""
        return pools.expected if self is Merit.reward else pools.ranks
