"""All of the past trains, and all of it ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.part import PAPER
from fairbandit.registry import register
from fairbandit.splits.base import Division, Split


@register("split", "full")
class Full(Split):
    """Rounds 1 … t − 1 train the estimator and feed the ranks."""

    reference = PAPER

    def _divide(self, t: Tensor) -> Division:
        return Division(n_train=t - 1, rank_start=torch.zeros_like(t), rank_stop=t - 1)
