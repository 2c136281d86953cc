"""The empirical CDF of a sample of each group."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
import torch
from torch import Tensor


class GroupedCdf:
    """F(v, g): the share of group g's sample, which is not empty, that is at most v.

    A share is the quotient of two whole numbers in the dtype of the values, correctly rounded. The
    shares of two groups are therefore equal if the fractions are equal.

    >>> cdf = GroupedCdf([torch.tensor([1.0, 2.0]), torch.tensor([5.0])])
    >>> cdf(torch.tensor([0, 0, 1]), torch.tensor([1.0, 9.0, 4.0]))
    tensor([0.5000, 1.0000, 0.0000])
    """

    def __init__(self, samples: Sequence[Tensor]) -> None:
        # NumPy sorts millions three times as fast as torch
        self._sorted = [torch.from_numpy(np.sort(s.cpu().numpy())).to(s.device) for s in samples]

    def __call__(self, groups: Tensor, values: Tensor, rounds: Tensor | None = None) -> Tensor:
        """The CDF of each group at its value, in the values' dtype; 0 where the group is −1.

        It does not depend on `rounds`.
        """
        shares = torch.zeros_like(values)
        for group in range(len(self._sorted)):
            shares = torch.where(groups == group, self.share(group, values), shares)
        return shares

    def share(self, group: int, values: Tensor) -> Tensor:
        """The CDF of one group at values of any shape."""
        ordered = self._sorted[group]
        count = torch.searchsorted(ordered, values.contiguous(), right=True)
        return count.to(values.dtype) / len(ordered)

    def sample(self, group: int) -> Tensor:
        """A group's sample in ascending order."""
        return self._sorted[group]

    def to(self, device: torch.device) -> GroupedCdf:
        """The same CDF on another device."""
        moved = copy(self)
        moved._sorted = [ordered.to(device) for ordered in self._sorted]
        return moved
