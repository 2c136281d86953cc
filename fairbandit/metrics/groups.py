"""Metrics of the groups' picks, candidates and rewards, and of the order within shortlists."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from fairbandit.history import Problem
from fairbandit.metrics.base import Judged, Metric, Reduce, members
from fairbandit.registry import Count, register
from fairbandit.registry.signatures import Range
from fairbandit.selectors.group_shares import group_shares


class GroupMetric(Metric):
    """A metric of the groups' sums over rounds 1 … t; a subclass implements `_judge`.

    All picks of a round are counted.
    """

    reduce: ClassVar[Reduce] = "last"
    compares: ClassVar[bool] = False
    """Whether groups are compared with each other, which leaves out unknown groups."""

    def init(self, problem: Problem) -> Any:
        """Returns sums of 0; see `Metric`."""
        return problem.zeros(problem.replicas, 3, 1, problem.groups)

    def _values(self, judged: Judged, sums: Tensor) -> tuple[Tensor, Tensor]:
        member = members(judged.pools.groups, judged.problem.groups).double()
        picked, received = self._picked(judged, member), member.sum(2)
        gained = judged.total(member * judged.pools.expected[..., None])
        sums = sums + torch.stack([picked, received, gained], 1).cumsum(2)
        compared = sums
        if self.compares and judged.problem.unknown:
            compared = sums.index_fill(3, sums.new_tensor(judged.problem.unknown).long(), 0)
        return self._judge(*compared.unbind(1)), sums[:, :, -1:]

    def _picked(self, judged: Judged, member: Tensor) -> Tensor:
        return judged.total(member)

    @abstractmethod
    def _judge(self, picked: Tensor, received: Tensor, gained: Tensor) -> Tensor:
        """Judges the sums after each of N rounds, (B, N, G) each: (B, N).

        `picked` and `received` are the numbers of picks and of candidates of each group, and
        `gained` is the sum of its picks' true rewards, NaN without a ground truth.
        """


@register("metric", "parity_gap")
class ParityGap(GroupMetric):
    """The greatest minus the least selection rate of the groups: demographic parity is 0.

    max_g N_g/C_g − min_g N_g/C_g, where N_g counts the picks and C_g the candidates of group g in
    rounds 1 … t; groups without candidates so far, and unknown groups, are left out.
    """

    compares = True
    reference = "Dwork, Hardt, Pitassi, Reingold, Zemel, Fairness through Awareness, ITCS 2012"

    def _judge(self, picked: Tensor, received: Tensor, gained: Tensor) -> Tensor:
        return spread_of(picked / received, received > 0)


@register("metric", "group_reward_gap")
class GroupRewardGap(GroupMetric):
    """The greatest minus the least mean true reward of the groups' picks.

    max_g m_g − min_g m_g, where m_g is the mean true reward of the picks of group g in rounds
    1 … t. Groups without picks and unknown groups are left out; `parity_gap` measures how often
    groups are picked.
    """

    compares = True
    needs_truth = True

    def _judge(self, picked: Tensor, received: Tensor, gained: Tensor) -> Tensor:
        return spread_of(gained / picked, picked > 0)


@register("metric", "pull_shortfall")
@dataclass(kw_only=True, eq=False)
class PullShortfall(GroupMetric):
    """The largest shortfall of a group from a guaranteed share of the picks, in picks.

    max_{s ≤ t} max_g (r_g·N(s) − N_g(s)), where N_g(s) counts the picks of group g in rounds 1 … s,
    and N(s) all picks, s if each round has one pick. Rounds whose pool lacks a group count for its
    share, too. The shortfall is negative while each group has had more than its share.

    Args:
        shares: r, one number from 0 to 1 for all groups, or a list with one number for each group
            in their order, with a sum of at most 1. None is the smaller of 0.1 and 1/(2G) for each
            group.

    Raises:
        FairbanditError: a value is out of range; in `init`, the length of the list is not the
            number of groups, or the shares sum to more than 1.
    """

    reference = (
        "Patil, Ghalme, Nair, Narahari, Achieving Fairness in the Stochastic Multi-armed Bandit "
        "Problem, AAAI 2020"
    )
    reduce = "max"

    shares: Any = None

    def __post_init__(self) -> None:
        group_shares(self.shares)

    def init(self, problem: Problem) -> Any:
        """Returns sums of 0, and refuses shares that do not fit the groups; see `Metric`."""
        group_shares(self.shares, problem.groups)
        return super().init(problem)

    def _judge(self, picked: Tensor, received: Tensor, gained: Tensor) -> Tensor:
        rounds = picked.sum(2, keepdim=True)
        share = picked.new_tensor(group_shares(self.shares, picked.shape[2]))
        return (share * rounds - picked).amax(2)


@register("metric", "welfare")
@dataclass(kw_only=True, eq=False)
class Welfare(GroupMetric):
    """The p-mean of the groups' mean true rewards.

    (1/G Σ_g m_g^p)^{1/p}, where m_g is the mean true reward of the picks of group g in rounds
    1 … t. p = 1 is the utilitarian welfare; p = 0 is Nash's, the geometric mean Π_g m_g^{1/G};
    p → −∞ is Rawls's, the least m_g, from which p = −1e6 differs by a factor of G^{1e-6}.
    A group with candidates but without picks has m_g = 0; a group without candidates is left out.
    Except for p = 1, p-means require nonnegative rewards: the metric is null from the first round
    with a negative true reward of a candidate, such as a standardised reward of a table. This
    depends only on the pools, so the metric is null either for all policies or for none.

    Args:
        p: any finite number; with a smaller p, the worst group has more weight. −1e6 stands for
            −∞, and 1e6 for ∞.
    """

    reference = (
        "Moulin, Fair Division and Collective Welfare, 2003, ch. 3; Barman, Khan, Maiti, Sawarni, "
        "Fairness and Welfare Quantification for Regret in Multi-Armed Bandits, AAAI 2023"
    )
    needs_truth = True
    lower_is_better = False

    p: Annotated[float, Range()] = 0.0

    def init(self, problem: Problem) -> Any:
        """Returns sums of 0, and 0 as the least true reward so far; see `Metric`."""
        return super().init(problem), problem.zeros(problem.replicas, 1)

    def values(self, judged: Judged, sums: Any) -> tuple[Tensor, Any]:
        """Judges the next N rounds; see `Metric`. Undefined welfare is NaN."""
        (sums, least), pools = sums, judged.pools
        values, sums = super().values(judged, sums)
        lows = pools.expected.where(pools.groups >= 0, 0).amin(2)
        lows = torch.cat([least, lows], 1).cummin(1).values[:, 1:]
        values = values if self.p == 1 else values.where(lows >= 0, torch.nan)
        return values, (sums, lows[:, -1:])

    def _judge(self, picked: Tensor, received: Tensor, gained: Tensor) -> Tensor:
        return _p_mean(gained / picked.clamp(min=1), received > 0, self.p)


def spread_of(values: Tensor, there: Tensor) -> Tensor:
    """The greatest minus the least value where `there`, (B, N, G) to (B, N)."""
    most, least = values.where(there, -torch.inf).amax(2), values.where(there, torch.inf).amin(2)
    return (most - least).where(there.any(2), 0)


def _p_mean(values: Tensor, there: Tensor, p: float) -> Tensor:
    count = there.sum(2, keepdim=True)
    if p == 1:
        return values.where(there, 0).sum(2) / count[..., 0]
    values = values.clamp(min=0)
    # powers are relative to the value with the most weight, so they cannot overflow
    unit = values.where(there, -torch.inf).amax(2, keepdim=True)
    if p < 0:
        unit = values.where(there, torch.inf).amin(2, keepdim=True)
    logs = (values / unit).log().where(there, 0)
    if p == 0:
        mean = logs.sum(2, keepdim=True) / count
    else:  # this form is accurate for small p, too
        mean = ((p * logs).expm1().sum(2, keepdim=True) / count).log1p() / p
    return (unit * mean.exp()).where(unit > 0, 0)[..., 0]


def discounts(picks: int, like: Tensor) -> Tensor:
    """The exposure of each place of a shortlist, 1/log₂(1 + j) for j = 1 … m, (m,)."""
    places = torch.arange(2, picks + 2, dtype=torch.float64, device=like.device)
    return 1 / places.log2()


def members_of_picks(judged: Judged, groups: int) -> Tensor:
    """The picks of each place by group, in order of preference, (B, N, m, G) of 0 and 1."""
    picked = judged.gather_picks(judged.pools.groups)
    return members(picked if picked.ndim == 3 else picked[..., None], groups).double()


@register("metric", "discounted_exposure")
class DiscountedExposure(ParityGap):
    """The greatest minus the least mean exposure of the groups' candidates.

    max_g E_g/C_g − min_g E_g/C_g, where E_g sums 1/log₂(1 + j) over the picks of group g in rounds
    1 … t, of which j is the place in the shortlist, and C_g counts its candidates; groups without
    candidates so far and unknown groups are left out. For one pick it is the `parity_gap`.
    """

    reference = "Singh, Joachims, Fairness of Exposure in Rankings, KDD 2018, sec. 4.1"

    def _picked(self, judged: Judged, member: Tensor) -> Tensor:
        members = members_of_picks(judged, member.shape[3])
        return (members * discounts(members.shape[2], members)[:, None]).sum(2)


@register("metric", "ndkl")
class NormalizedDivergence(Metric):
    """The distance of the groups' shares of the first places from their shares of the pool.

    (1/Z) Σ_i D(p_i ‖ q)/log₂(1 + i), where p_i are the shares of the groups among the first i of m
    picks, q their shares among the candidates of the pool, D(p ‖ q) = Σ_g p_g ln(p_g/q_g), and
    Z = Σ_i 1/log₂(1 + i). It is 0 if all first places are shared like the pool. Even a fair order
    has a positive value, since few places cannot be shared exactly; compare it with `uniform`.
    """

    reference = (
        "Geyik, Ambler, Kenthapadi, Fairness-Aware Ranking in Search & Recommendation Systems, "
        "KDD 2019, def. 2.4"
    )
    reduce = "mean"

    def _values(self, judged: Judged) -> Tensor:
        picks = members_of_picks(judged, judged.problem.groups)
        filled = picks.sum(3)
        first = picks.cumsum(2) / filled.cumsum(2).clamp(min=1)[..., None]
        pool = members(judged.pools.groups, judged.problem.groups).double().sum(2)
        pool = pool / pool.sum(2, keepdim=True)
        ratio = first / pool.clamp(min=1e-300)[:, :, None]  # groups that the pool lacks have 0/q
        divergence = torch.special.xlogy(first, ratio).sum(3)
        weights = discounts(picks.shape[2], picks) * filled
        return (weights * divergence).sum(2) / weights.sum(2)


@register("metric", "skew")
@dataclass(kw_only=True, eq=False)
class Skew(Metric):
    """How much more often a group is among the first places of a shortlist than in the pool.

    max_g ln(p_g/q_g), where p_g is the share of group g among the first k picks, and q_g its share
    among the candidates of the pool. It is 0 if all groups are shared like the pool, and ln 2 if
    some group is twice as frequent. Even a fair order has a positive value, since few places cannot
    be shared exactly; compare it with `uniform`.

    Args:
        first: k, at least 1; None counts all picks.
    """

    reference = (
        "Geyik, Ambler, Kenthapadi, Fairness-Aware Ranking in Search & Recommendation Systems, "
        "KDD 2019, def. 2.3 (MaxSkew@k)"
    )
    reduce = "mean"

    first: Count | None = None

    def _values(self, judged: Judged) -> Tensor:
        picks = members_of_picks(judged, judged.problem.groups)[:, :, : self.first].sum(2)
        pool = members(judged.pools.groups, judged.problem.groups).double().sum(2)
        ratio = (picks / picks.sum(2, keepdim=True)) / (pool / pool.sum(2, keepdim=True))
        return ratio.where(pool > 0, 0).amax(2).log()
