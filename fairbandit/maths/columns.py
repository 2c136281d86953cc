"""Leaving out features that a group never has."""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 0.7
"""Where some group has more than this share of all features, all are kept."""


class Columns:
    """The features to keep of each group's contexts; what is left out is 0 in all of them.

    Every group keeps as many: all that any of its contexts has, and others to fill up.

    Args:
        used: which features some context of each group has, (G, d) bool.

    Attributes:
        features: d.
        kept: theirs, ascending, (G, w) int64; None where all are kept.
        width: w.
    """

    kept: Tensor | None

    def __init__(self, used: Tensor) -> None:
        groups, self.features = used.shape
        widest = max(1, int(used.sum(1).amax())) if groups else 1
        self._used, self.width, self.kept = used, self.features, None
        if widest <= MOST * self.features:
            first = (~used).to(torch.int8).argsort(dim=1, stable=True)
            self.width, self.kept = widest, first[:, :widest].sort(dim=1).values

    def pick(self, groups: Tensor, contexts: Tensor) -> Tensor:
        """What is kept of contexts, (B, M, d), of given groups, (B, M): (B, M, w)."""
        return contexts if self.kept is None else contexts.gather(2, self.kept[groups])

    def loses(self, contexts: Tensor, picked: Tensor) -> bool:
        """Whether contexts have anything that was not picked from them."""
        if self.kept is None:
            return False
        return int(contexts.count_nonzero()) > int(picked.count_nonzero())

    def pick_of(self, group: int, contexts: Tensor) -> Tensor:
        """The same of contexts, or models, (B, M, d), that one group alone is asked about."""
        return contexts if self.kept is None else contexts.index_select(2, self.kept[group])

    def whole(self, group: int, picked: Tensor) -> Tensor:
        """Contexts of a group, (B, L, d), of which (B, L, w) was picked."""
        if self.kept is None:
            return picked
        whole = picked.new_zeros(*picked.shape[:2], self.features)
        return whole.index_copy_(2, self.kept[group], picked)

    def of_groups(self, theta: Tensor) -> Tensor:
        """The weights (B, U, d) of linear models, for what is kept of every group: (B, U, G, w)."""
        if self.kept is not None:
            return theta[:, :, self.kept]
        return theta.unsqueeze(2).expand(-1, -1, len(self._used), -1)

    def learn(self, groups: Tensor, contexts: Tensor) -> Columns:
        """The columns that lose nothing of further contexts either.

        Args:
            groups: (B, M), −1 for none.
            contexts: (B, M, d).
        """
        every = range(len(self._used))
        news = [(contexts[groups == group] != 0).any(0) for group in every]
        used = self._used | torch.stack(news)
        return self if torch.equal(used, self._used) else Columns(used)

    def grow(self, groups: int) -> Columns:
        """The columns where there are more groups, so many."""
        more = self._used.new_zeros(groups - len(self._used), self.features)
        return Columns(torch.cat([self._used, more]))
