"""Between ranks and rewards."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.errors import FairbanditError
from fairbandit.part import PAPER
from fairbandit.ranks.base import tie_tolerance
from fairbandit.ranks.paper import EmpiricalCdf
from fairbandit.registry import register


@register("rank", "tradeoff")
class Tradeoff(EmpiricalCdf):
    """A mean of the empirical rank within the group and the standardised score.

    (1 − α)·F̂_g(s) + α·(s − m)/v. F̂_g is the index of `empirical_cdf`, m and v are the mean and
    the standard deviation (divisor n) of the scores that all n past contexts in the round's
    window get under this round's model, whatever their group: one scale for the whole pool. With
    α = 0 the policy decides as with `empirical_cdf` and is group meritocratic, with α = 1 it
    decides as with `identity` and maximises the reward. Where the window is empty m = 0, and
    where past scores do not differ v = 1.

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

    def _tie_ceiling(self, candidates: Candidates, index: Tensor) -> Tensor:
        # the difference of two numbers this near is exact, so that α = 1 ties as `identity` does
        top, score = (
            _standardised(candidates, values)
            for values in (candidates.scores + candidates.errors, candidates.scores)
        )
        return index + self.alpha * (top - score)

    def _index(self, candidates: Candidates) -> Tensor:
        score = _standardised(candidates, candidates.scores)
        return (1 - self.alpha) * super()._index(candidates) + self.alpha * score


def _standardised(candidates: Candidates, values: Tensor) -> Tensor:
    """(values − m)/v, (B, N, K)."""
    groups = candidates.past.of()
    count = groups.count
    share = count / count.sum(2, keepdim=True).clamp(min=1)
    here = count > 0
    means, variances = (part.where(here, 0) for part in groups.moments)
    mean = (share * means).sum(2, keepdim=True)
    spread = variances + (means - mean) ** 2
    deviation = (share * spread).sum(2, keepdim=True).sqrt()
    flat = deviation <= tie_tolerance(candidates)
    return (values - mean) / torch.where(flat, 1.0, deviation)
