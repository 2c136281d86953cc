"""What is counted of pools."""

from __future__ import annotations

import torch
from torch import Tensor


def received(groups: Tensor, count: int) -> Tensor:
    """Counts the candidates of each group in N rounds.

    Args:
        groups: (B, N, K) int64, −1 an empty place.
        count: the number of groups, G.

    Returns:
        (B, G) int64.
    """
    return torch.stack([(groups == group).sum((1, 2)) for group in range(count)], 1)
