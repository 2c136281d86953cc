"""Values at the places that were picked."""

import torch
from torch import Tensor


def gather_picks(values: Tensor, actions: Tensor, empty: float | None = None) -> Tensor:
    """Gathers the values at the places that were picked.

    Args:
        values: (B, N, K, …).
        actions: (B, N), or (B, N, m); −1 where no place was picked.
        empty: the value of empty slots; None for NaN, or −1 if values are whole numbers.

    Returns:
        (B, N, …), or (B, N, m, …).
    """
    slots = actions if actions.ndim == 3 else actions[..., None]
    slots = slots.view(*slots.shape, *[1] * (values.ndim - 3))
    index = slots.clamp(min=0).expand(-1, -1, -1, *values.shape[3:])
    if empty is None:
        empty = torch.nan if values.is_floating_point() else -1
    picked = values.gather(2, index).masked_fill(slots < 0, empty)
    return picked if actions.ndim == 3 else picked.squeeze(2)
