"""A rank estimator in one file: put one like it here, and `policy/rank=its_name` finds it."""

import torch

from fairbandit import register
from fairbandit.ranks import ROUNDING, Approximate, Rank, Scored


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

    def _index(self, scored: Scored) -> Approximate:
        past, (value, slack) = scored.past, scored.scores
        mean, variance = past.moments
        above, deviation = value - mean, variance.sqrt()
        step = torch.where(above.abs() <= 2 * slack, 0.5, (above > 0).to(above.dtype))
        flat, z = deviation <= 2 * slack, above / deviation
        share = torch.where(flat, step, torch.special.ndtr(z))
        # errors e of s, m and v move the index by at most φ(z)·(2 + |z|)·e/v
        moved = 0.4 * torch.exp(-(z**2) / 2) * (2 + z.abs()) * slack / deviation
        index = scored.drawn_where(past.count == 0, share)
        return Approximate(index, moved.where(deviation > 2 * slack, 0) + ROUNDING)
