"""A rank estimator in one file: put one like it here, and `policy/rank=its_name` finds it."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.candidates import Candidates
from fairbandit.ranks import Rank

ROUNDING = 8 * torch.finfo(torch.float64).eps
"""What rounding may add to a share."""


@register("rank", "gaussian_cdf")
class GaussianCdf(Rank):
    """CDF of a normal distribution fitted to the group's past scores.

    Φ((s − m)/v), with m and v the mean and standard deviation (divisor n) of the scores that the
    group's past contexts get under this round's model. Two numbers a group make it smooth where a
    group has few candidates, and wrong where scores are far from normal. A candidate of a group
    without past contexts gets a rank drawn from U(0, 1); where all past scores are equal, the
    rank is 0 below them, ½ at them and 1 above.
    """

    reference = "The plug-in estimate Φ((s − m)/v) of a normal CDF; e.g. Casella and Berger 2002"
    needs = frozenset({"contexts"})

    def _index(self, candidates: Candidates) -> Tensor:
        past, (mean, variance) = candidates.past, candidates.past.moments
        above, deviation = candidates.scores - mean, variance.sqrt()
        tolerance = 2 * candidates.errors  # below this a difference is no difference
        step = torch.where(above.abs() <= tolerance, 0.5, (above > 0).to(above.dtype))
        share = torch.where(deviation <= tolerance, step, torch.special.ndtr(above / deviation))
        return candidates.drawn_where(past.count == 0, share)

    def _tie_ceiling(self, candidates: Candidates, index: Tensor) -> Tensor:
        errors, (mean, variance) = candidates.errors, candidates.past.moments
        deviation = variance.sqrt()
        z = (candidates.scores - mean) / deviation
        # errors e of s, m and v move the index by at most φ(z)·(2 + |z|)·e/v
        moved = 0.4 * torch.exp(-(z**2) / 2) * (2 + z.abs()) * errors / deviation
        return index + moved.where(deviation > 2 * errors, 0) + ROUNDING
