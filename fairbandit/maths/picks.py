"""Values at the places that were picked."""

from torch import Tensor


def gather_picks(values: Tensor, actions: Tensor) -> Tensor:
    """The value at the place picked: (B, N, K, …) and (B, N) to (B, N, …)."""
    index = actions.reshape(*actions.shape, *[1] * (values.ndim - 2))
    return values.gather(2, index.expand(-1, -1, 1, *values.shape[3:])).squeeze(2)
