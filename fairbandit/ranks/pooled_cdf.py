"""The empirical CDF of the scores of all groups together."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.ranks.base import Rank, Scored
from fairbandit.registry import register


@register("rank", "pooled_cdf")
class PooledCdf(Rank):
    """Share of the past contexts of all groups that score no higher under this round's model.

    N⁻¹ Σ 1{sᵢ ≤ s} over the N past contexts of all groups in the round's window. Within a
    pool it orders candidates as their scores do, except for ties; unlike a score, it is uniform on
    average, so that thresholds of `rolling` apply to it. Groups of higher scores are preferred: it
    is not a relative rank. For N = 0 the rank is drawn from U(0, 1).
    """

    reference = "the baseline of `rolling` that ignores groups; an ordinary empirical CDF"
    needs = frozenset({"contexts"})

    def _index(self, scored: Scored) -> Tensor:
        b, n, k = scored.groups.shape
        total = scored.past.of().count.sum(2, keepdim=True).expand(b, n, k)
        groups = torch.arange(scored.problem.groups, device=scored.groups.device)
        every = scored.past.of(groups.expand(b, n, k, -1).flatten(2))
        values = scored.scores.greatest_tie[..., None].expand(b, n, k, len(groups))
        below = every.count_le(values.flatten(2)).unflatten(2, (k, -1)).sum(3)
        return scored.drawn_where(total == 0, below / total)
