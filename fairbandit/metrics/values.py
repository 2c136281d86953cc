"""What is read off pools and the places picked."""

from __future__ import annotations

import torch
from torch import Tensor


def of_pick(values: Tensor, actions: Tensor) -> Tensor:
    """Returns the value at the place picked.

    Args:
        values: (B, N, K, …).
        actions: the places picked, (B, N) int64.

    Returns:
        (B, N, …).
    """
    index = actions.reshape(*actions.shape, *[1] * (values.ndim - 2))
    return values.gather(2, index.expand(-1, -1, 1, *values.shape[3:])).squeeze(2)


def received(groups: Tensor, count: int) -> Tensor:
    """Counts the candidates of each group in N rounds.

    Args:
        groups: (B, N, K) int64, −1 an empty place.
        count: the number of groups, G.

    Returns:
        (B, G) int64.
    """
    return torch.stack([(groups == group).sum((1, 2)) for group in range(count)], 1)
