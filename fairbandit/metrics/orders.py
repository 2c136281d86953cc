"""Metrics of the order within shortlists, in which early places are seen more."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.metrics.base import Judged, Metric, members
from fairbandit.metrics.groups import GroupMetric, spread_of
from fairbandit.registry import register


def discounts(picks: int, like: Tensor) -> Tensor:
    """Returns the exposure of each place of a shortlist, 1/log₂(1 + j) for j = 1 … m, (m,)."""
    places = torch.arange(2, picks + 2, dtype=torch.float64, device=like.device)
    return 1 / places.log2()


def members_of_picks(judged: Judged, groups: int) -> Tensor:
    """Returns the picks of each place by group, in order of preference, (B, N, m, G) of 0 and 1."""
    picked = judged.gather_picks(judged.pools.groups)
    return members(picked if picked.ndim == 3 else picked[..., None], groups).double()


@register("metric", "discounted_exposure")
class DiscountedExposure(GroupMetric):
    """The greatest minus the least mean exposure of the groups' candidates.

    max_g E_g/C_g − min_g E_g/C_g, where E_g sums 1/log₂(1 + j) over the picks of group g in rounds
    1 … t, of which j is the place in the shortlist, and C_g counts its candidates; groups without
    candidates so far and unknown groups are left out. For one pick it is the `parity_gap`.
    """

    compares = True
    reference = "Singh, Joachims, Fairness of Exposure in Rankings, KDD 2018, sec. 4.1"

    def _picked(self, judged: Judged, member: Tensor) -> Tensor:
        shown = members_of_picks(judged, member.shape[3])
        return (shown * discounts(shown.shape[2], shown)[:, None]).sum(2)

    def _judge(self, picked: Tensor, received: Tensor, gained: Tensor) -> Tensor:
        return spread_of(picked / received, received > 0)


@register("metric", "ndkl")
class NormalizedDivergence(Metric):
    """How far the groups' shares in the first places of a shortlist are from those in the pool.

    (1/Z) Σ_i D(p_i ‖ q)/log₂(1 + i), where p_i are the shares of the groups among the first i of m
    picks, q those among the candidates of the pool, D(p ‖ q) = Σ_g p_g ln(p_g/q_g), and
    Z = Σ_i 1/log₂(1 + i). It is 0 if all first places are shared like the pool. Even a fair order
    has a positive value, since few places cannot be shared exactly; compare it with `uniform`.
    """

    reference = (
        "Geyik, Ambler, Kenthapadi, Fairness-Aware Ranking in Search & Recommendation Systems, "
        "KDD 2019, def. 2.4"
    )
    reduce = "mean"

    def _values(self, judged: Judged) -> Tensor:
        shown = members_of_picks(judged, judged.problem.groups)
        filled = shown.sum(3)
        first = shown.cumsum(2) / filled.cumsum(2).clamp(min=1)[..., None]
        pool = members(judged.pools.groups, judged.problem.groups).double().sum(2)
        pool = pool / pool.sum(2, keepdim=True)
        ratio = first / pool.clamp(min=1e-300)[:, :, None]  # groups that the pool lacks have 0/q
        divergence = torch.special.xlogy(first, ratio).sum(3)
        weights = discounts(shown.shape[2], shown) * filled
        return (weights * divergence).sum(2) / weights.sum(2)


@register("metric", "skew")
class Skew(Metric):
    """How much more often a group is among the first places of a shortlist than in the pool.

    max_g ln(p_g/q_g), where p_g is the share of group g among the first k picks, and q_g its share
    among the candidates of the pool. It is 0 if all groups are shared like the pool, and ln 2 if
    some group is twice as frequent. Even a fair order has a positive value, since few places cannot
    be shared exactly; compare it with `uniform`.

    Args:
        first: k, at least 1; None counts all picks.

    Raises:
        FairbanditError: k is out of range.
    """

    reference = (
        "Geyik, Ambler, Kenthapadi, Fairness-Aware Ranking in Search & Recommendation Systems, "
        "KDD 2019, def. 2.3 (MaxSkew@k)"
    )
    reduce = "mean"

    def __init__(self, *, first: int | None = None) -> None:
        if first is not None and first < 1:
            raise FairbanditError(f"first (k) must be at least 1, got {first}")
        self.first = first

    def _values(self, judged: Judged) -> Tensor:
        shown = members_of_picks(judged, judged.problem.groups)[:, :, : self.first].sum(2)
        pool = members(judged.pools.groups, judged.problem.groups).double().sum(2)
        ratio = (shown / shown.sum(2, keepdim=True)) / (pool / pool.sum(2, keepdim=True))
        return ratio.where(pool > 0, 0).amax(2).log()
