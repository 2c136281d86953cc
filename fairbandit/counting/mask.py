"""The feature mask: features that are 0 in all contexts of a group are not stored for it."""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 0.7
"""If some group has more than this share of the features, all features of all are stored."""


class FeatureMask:
    """Which features of each group's contexts are stored; those left out are 0 in all of them.

    Every group stores the same number of features, w. A group that has fewer stores others too,
    which are 0 in its contexts.

    Args:
        used: which features some context of each group has, (G, d) bool.

    Attributes:
        features: the stored ones of each group, ascending, (G, w) int64; None if all are stored.
        width: w.
    """

    features: Tensor | None

    def __init__(self, used: Tensor) -> None:
        groups, d = used.shape
        widest = max(1, int(used.sum(1).amax())) if groups else 1
        self._used, self.width, self.features = used, d, None
        if widest <= MOST * d:
            used_first = (~used).to(torch.int8).argsort(dim=1, stable=True)
            self.width, self.features = widest, used_first[:, :widest].sort(dim=1).values

    def of_each(self, groups: Tensor, contexts: Tensor) -> Tensor:
        """What is stored of contexts, (B, M, d), of groups, (B, M): (B, M, w)."""
        return contexts if self.features is None else contexts.gather(2, self.features[groups])

    def of_group(self, group: int, values: Tensor) -> Tensor:
        """What is stored of contexts, or of weights, (B, M, d), of one group: (B, M, w)."""
        if self.features is None:
            return values
        return values.index_select(2, self.features[group])

    def of_all_groups(self, theta: Tensor) -> Tensor:
        """The parameters θ of U linear models that belong to the features stored for each group.

        Args:
            theta: θ, (B, U, d).

        Returns:
            (B, U, G, w): entry g holds the w coordinates of θ whose features group g stores, so
            that its product with a stored context is the model's score.
        """
        if self.features is not None:
            return theta[:, :, self.features]
        return theta.unsqueeze(2).expand(-1, -1, self._used.shape[0], -1)

    def whole(self, group: int, stored: Tensor) -> Tensor:
        """The contexts of one group, (B, L, d), of which (B, L, w) is stored."""
        if self.features is None:
            return stored
        whole = stored.new_zeros(*stored.shape[:2], self._used.shape[1])
        return whole.index_copy_(2, self.features[group], stored)

    def loses(self, contexts: Tensor, stored: Tensor) -> bool:
        """Whether contexts have a feature that is not stored."""
        if self.features is None:
            return False
        return int(contexts.count_nonzero()) > int(stored.count_nonzero())

    def learn(self, groups: Tensor, contexts: Tensor) -> FeatureMask:
        """The mask that loses nothing of further contexts either; this one, if it does not.

        Args:
            groups: (B, M) int64, −1 for contexts that do not matter.
            contexts: (B, M, d).
        """
        new = [(contexts[groups == group] != 0).any(0) for group in range(len(self._used))]
        used = self._used | torch.stack(new)
        return self if torch.equal(used, self._used) else FeatureMask(used)

    def grow(self, groups: int) -> FeatureMask:
        """The mask for G groups, of which the new ones have no contexts yet."""
        return FeatureMask(torch.nn.functional.pad(self._used, (0, 0, 0, groups - len(self._used))))
