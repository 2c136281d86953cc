"""What a pick is judged by: both regrets of a round, and who was received and selected."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.environments.base import Pools
from fairbandit.maths.picks import of_pick


class Regrets(NamedTuple):
    """What was lost in each round against each optimum, (B, N), at least 0.

    Attributes:
        standard: max_a ⟨θ, x_a⟩ − ⟨θ, x_pick⟩, true rewards.
        fair: max_a F(x_a) − F(x_pick), true relative ranks.
    """

    standard: Tensor
    fair: Tensor


def regrets(pools: Pools, actions: Tensor) -> Regrets:
    """Each round's instantaneous regrets.

    Args:
        pools: N rounds with their truths.
        actions: the places picked, (B, N) int64.

    Returns:
        Standard and fair regret; empty places are no competition.

    Reference:
        Grazzi et al. 2022, Definition 2 and Remark 1.
    """
    empty = pools.groups < 0
    lost = []
    for values in (pools.expected, pools.ranks):
        best = values.masked_fill(empty, -torch.inf).amax(2)
        lost.append(best - of_pick(values, actions))
    return Regrets(*lost)


def received(groups: Tensor, count: int) -> Tensor:
    """How many candidates of each group came in N rounds: (B, N, K) to (B, G) int64."""
    return torch.stack([(groups == group).sum((1, 2)) for group in range(count)], 1)
