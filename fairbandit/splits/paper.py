"""The paper's splits: halves of the past, and the full past."""

from __future__ import annotations

import numpy as np

from fairbandit.registry import register
from fairbandit.registry.part import PAPER
from fairbandit.splits.base import Division, Ints, Split


@register("split", "halves")
class Halves(Split):
    """The first half of the past trains, the second half feeds the ranks.

    n_train = ⌊(t − 1)/2⌋, and the rank window is rounds n_train + 1 … t − 1 (Algorithm 2, line 4).
    So the model is independent of the contexts that feed the ranks.
    """

    reference = PAPER

    def _divide(self, t: Ints) -> Division:
        n_train = (t - 1) // 2
        return Division(n_train=n_train, rank_start=n_train, rank_stop=t - 1)


@register("split", "full")
class Full(Split):
    """Rounds 1 … t − 1 train the estimator and feed the ranks."""

    reference = PAPER

    def _divide(self, t: Ints) -> Division:
        return Division(n_train=t - 1, rank_start=np.zeros_like(t), rank_stop=t - 1)
