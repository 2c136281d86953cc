"""A group's empirical CDF, shrunk towards the pooled CDF of all groups."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fairbandit.ranks.base import Rank, Scored
from fairbandit.registry import NonNegative, register


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


@register("rank", "shrunk_cdf")
@dataclass(kw_only=True, eq=False)
class ShrunkCdf(Rank):
    """The group's empirical CDF, partially pooled with the standardised CDF of all groups.

    w·F̂_g(s) + (1 − w)·F̂_pool((s − m_g)/v_g), w = n_g/(n_g + p). F̂_g is the share of the n_g past
    scores of group g in the round's window that are no higher, m_g and v_g are their mean and
    standard deviation (divisor n_g), and F̂_pool is the empirical CDF of the past scores of all
    groups, each standardised by the mean and deviation of its group. The index is the posterior
    mean of the group's CDF under a Dirichlet process prior of strength p around the pooled CDF. A
    group with few members borrows the shape of the other groups; if shapes differ, this causes a
    bias of order p/n_g. If all scores of a group are equal, their standardised scores are 0, and a
    higher or lower candidate is above or below all scores of the pool. For n_g = 0 the rank is
    drawn from U(0, 1).

    Args:
        prior: p ≥ 0, the number of members that the pooled CDF counts as; 0 is `empirical_cdf`.
    """

    reference = (
        "Ferguson, A Bayesian analysis of some nonparametric problems, Annals of Statistics 1973 "
        "(the posterior mean), with the pooled CDF as its base"
    )
    needs = frozenset({"contexts"})

    prior: NonNegative = 20.0

    def _index(self, scored: Scored) -> Tensor:
        past, group = scored.past, scored.groups.clamp(min=0)
        below = self._below(scored)
        pooled = below.sum(3) / past.of().count.sum(2, keepdim=True)
        n = past.count
        share = below.gather(3, group[..., None])[..., 0] / n
        weight = n / (n + self.prior)
        return scored.drawn_where(past.count == 0, weight * share + (1 - weight) * pooled)

    def _below(self, scored: Scored) -> Tensor:
        # members of other groups are compared with the value that has the candidate's standardised
        # score in the group of the member
        past, groups, tolerance = scored.past, scored.groups, scored.tolerance
        every, group = past.of(), groups.clamp(min=0)
        mean, variance = every.moments
        deviation = variance.sqrt()
        flat = deviation <= tolerance
        score = _standardised(scored, mean.gather(2, group), deviation.gather(2, group))[..., None]
        flat_side = torch.where(score >= 0, torch.inf, -torch.inf)
        value = (mean + tolerance)[:, :, None] + deviation[:, :, None] * score
        value = torch.where(flat[:, :, None], flat_side, value)
        value.scatter_(3, group[..., None], scored.scores.greatest_tie[..., None])
        b, n, k, g = value.shape
        members = torch.arange(g, device=groups.device).expand(b, n, k, g)
        members = members.masked_fill((groups < 0)[..., None], -1)
        below = past.of(members.reshape(b, n, k * g)).count_le(value.reshape(b, n, k * g))
        return below.view(b, n, k, g)


def _standardised(scored: Scored, mean: Tensor, deviation: Tensor) -> Tensor:
    above = scored.scores.value - mean
    side = torch.where(above > 0, torch.inf, -torch.inf)
    tolerance = scored.tolerance
    step = torch.where(above.abs() <= tolerance, 0.0, side)
    standardised = (scored.scores.greatest_tie - mean) / deviation
    return torch.where(deviation <= tolerance, step, standardised)
