"""A guaranteed share of the picks for every group."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.shares import group_shares
from fairbandit.registry import register
from fairbandit.scored import Ranked
from fairbandit.selectors.base import Selector, best
from fairbandit.ties import ROUNDING


@register("selector", "minimum_pull")
class MinimumPull(Selector):
    """The best candidate of the group that lacks most of its share, if that is too much.

    Before round t, group g lacks r_g·(t − 1) − N_g(t − 1) picks, where N_g counts its picks. If
    the largest lack of the groups in the pool is above α, the best candidate of that group is
    picked, and otherwise the best of all. Groups that lack equally much count as one, and so do
    lacks that differ by rounding.

    Where all groups are in every pool, of which one is picked, and r_g ≤ 1/G, r_g·t − N_g(t) never
    exceeds α + 1, whatever the index. Proof by induction: for j = 1 … G, at most G − j groups lack
    more than α + j/G after a round. In a round each lack grows by at most 1/G. If none was above α,
    all are at most α + 1/G then. Otherwise the largest one, at most α + 1, falls to at most
    α + 1/G, and the other groups that now lack more than α + j/G lacked more than α + (j − 1)/G
    before; they and the group that was picked were at most G − j + 1. Larger shares may lack more:
    with the shares 0, 0.85 and 0.1 and α = 0 a group may lack 1.25.

    Of m picks of a round, groups that lack more than α get one place each, in the order of what
    they lack, and those that lack equally much share the last places; the best of all others get
    the rest. The share r_g·(t − 1) is then one of all picks so far.

    The paper has arms where we have groups, and all of them in every round. As an extension, a
    group that is not in a pool goes on to lack, and is repaid when it comes; this holds for
    groups that are new online too, which lack their share of all rounds. The paper leaves room for
    learning by shares that sum to less than 1; they may sum to 1 here, where the proof still holds.

    Args:
        shares: r, one number from 0 to 1 for all groups, or a list with one for each group in
            their order; they sum to at most 1. None is 0.1 for each group, and 1/(2G) where that
            is less. A list refuses groups that are new online, since it does not say what they are
            guaranteed.
        tolerance: α ≥ 0, how many picks a group may lack without consequence.

    Raises:
        FairbanditError: a value out of range; at the first decision, a list of another length than
            there are groups, or shares that sum to more than 1.
    """

    reference = (
        "Patil, Ghalme, Nair, Narahari, Achieving Fairness in the Stochastic Multi-armed Bandit "
        "Problem, AAAI 2020"
    )

    def __init__(self, *, shares: Any = None, tolerance: float = 0.0) -> None:
        group_shares(shares)
        if not (tolerance >= 0 and math.isfinite(tolerance)):
            raise FairbanditError(f"tolerance (α) must be at least 0 and finite, got {tolerance}")
        self.shares, self.tolerance = shares, tolerance

    def _last_pick_read(self, t: int) -> int:
        return t - 1

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        lack, rounding = self._lack(ranked)
        groups, present = ranked.groups, ranked.present.to(lack.dtype)
        if picks == 1:  # groups that lack equally much count as one
            own = lack.gather(2, groups.clamp(min=0)).where(ranked.present, -math.inf)
            most = own.amax(2, keepdim=True)
            due = (own >= most - rounding) | (most <= self.tolerance + rounding)
            return best(ranked.index, due & ranked.present, 1)
        size = torch.zeros_like(lack).scatter_add_(2, groups.clamp(min=0), present)
        due = (size > 0) & (lack > self.tolerance + rounding)
        lack = lack.where(due, -math.inf)
        less = lack[..., None] - lack[..., None, :]  # how much group g lacks more than group h
        before = (less < -rounding[..., None]).sum(3, dtype=lack.dtype)
        alike = (less.abs() <= rounding[..., None]).sum(3)
        owed = ((picks - before) / alike).clamp(0, 1).where(due, 0)
        first = best(ranked.index, present, owed, groups)
        left = picks - first.sum(2, keepdim=True)
        return first + best(ranked.index, present - first, left)

    def _lack(self, ranked: Ranked) -> tuple[Tensor, Tensor]:
        """How many picks each group lacks, (B, N, G), and by how much rounding moves that."""
        counts = ranked.pick_counts
        total = counts.sum(2, keepdim=True)
        shares = ranked.index.value.new_tensor(group_shares(self.shares, ranked.problem.groups))
        return shares * total - counts, ROUNDING * (total + 1).to(shares.dtype)
