"""A trade-off between ranks and rewards."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import Approximate
from fairbandit.ranks.base import Scored
from fairbandit.ranks.paper import EmpiricalCdf
from fairbandit.registry import register
from fairbandit.registry.part import PAPER


@register("rank", "tradeoff")
class Tradeoff(EmpiricalCdf):
    """A weighted mean of the empirical rank within the group and the standardised score.

    (1 − α)·F̂_g(s) + α·(s − m)/v. F̂_g is the index of `empirical_cdf`. m and v are the mean and
    the standard deviation (divisor n) of the scores of all n past contexts in the round's window
    under this round's model; contexts of all groups count, so that the whole pool has one scale.
    With α = 0 the policy decides like `empirical_cdf` and is group meritocratic; with α = 1 it
    decides like `identity` and maximises the reward. If the window is empty, m = 0; if past scores
    do not differ, v = 1.

    Args:
        alpha: α in [0, 1].

    Raises:
        FairbanditError: an alpha out of range.
    """

    reference = f"{PAPER}: the trade-off that its conclusion leaves open"

    def __init__(self, *, alpha: float = 0.5) -> None:
        if not 0 <= alpha <= 1:
            raise FairbanditError(f"alpha must be from 0 to 1, got {alpha}")
        self.alpha = alpha

    def _index(self, scored: Scored) -> Approximate:
        mean, deviation = _scale(scored)
        value, slack = scored.scores
        score = (value - mean) / deviation
        index = (1 - self.alpha) * self._share(scored) + self.alpha * score
        return Approximate(index, self.alpha * slack / deviation)


def _scale(scored: Scored) -> tuple[Tensor, Tensor]:
    """m and v, (B, N, 1) each."""
    groups = scored.past.of()
    count = groups.count
    share = count / count.sum(2, keepdim=True).clamp(min=1)
    any_past = count > 0
    means, variances = (part.where(any_past, 0) for part in groups.moments)
    mean = (share * means).sum(2, keepdim=True)
    spread = variances + (means - mean) ** 2
    deviation = (share * spread).sum(2, keepdim=True).sqrt()
    return mean, torch.where(deviation <= scored.tolerance, 1.0, deviation)
