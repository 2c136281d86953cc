"""A group's empirical CDF, smoothed by a Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbandit.estimators.ties import ROUNDING, Approximate
from fairbandit.ranks.base import Rank, Scored
from fairbandit.registry import Positive, register

REFERENCE_RULE = 4 ** (1 / 3)
"""The h/(σ·n^(−1/3)) of least mean integrated squared error for normal scores: about 1.59."""


@register("rank", "smoothed_cdf")
@dataclass(kw_only=True, eq=False)
class SmoothedCdf(Rank):
    """Kernel-smoothed share of the group's past scores below the candidate's.

    n⁻¹ Σ Φ((s − sᵢ)/h) over the n scores sᵢ that the group's past contexts in the round's window
    get under this round's model. The bandwidth is h = c·1.59·σ̂·n^(−1/3), where σ̂ is the standard
    deviation of the scores (divisor n − 1). c = 1 is asymptotically optimal for normal scores, and
    smooths too much if scores have several modes. If h is within rounding error of 0, as for a
    single context or equal contexts, the index equals `empirical_cdf`. For n = 0 the rank is drawn
    from U(0, 1).

    Args:
        bandwidth: c > 0, as a multiple of the optimum for normal scores.
    """

    reference = (
        "Azzalini, A note on the estimation of a distribution function and quantiles by a kernel "
        "method, Biometrika 1981; the bandwidth's rule after Bowman, Hall and Prvan, Bandwidth "
        "selection for the smoothing of distribution functions, Biometrika 1998"
    )
    needs = frozenset({"contexts"})

    bandwidth: Positive = 1.0

    def _index(self, scored: Scored) -> Approximate:
        past, width, (value, slack) = scored.past, self._width(scored), scored.scores
        flat, smooth = width <= 2 * slack, width > 2 * slack  # both false if n = 0
        width = torch.where(flat, 1.0, width)
        total = past.sum(lambda old, s, h: torch.special.ndtr((s - old) / h), value, width)
        share = total / past.count
        if bool(flat.any()):
            share = torch.where(flat, past.count_le() / past.count, share)
        # the slope of the index is at most φ(0)/h
        slack = 2 * slack / (math.sqrt(2 * math.pi) * width) + ROUNDING
        index = scored.drawn_where(past.count == 0, share)
        return Approximate(index, torch.where(smooth, slack, 0.0))

    def _width(self, scored: Scored) -> Tensor:
        """The bandwidth h, (B, N, K); NaN if n = 0."""
        past = scored.past
        n, (_, variance) = past.count, past.moments
        deviation = (variance * n / (n - 1).clamp(min=1)).sqrt()
        return self.bandwidth * REFERENCE_RULE * deviation * n ** (-1 / 3)
