"""A group drawn at random, and guaranteed shares of the picks for every group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError, typed
from fairbandit.estimators.ties import ROUNDING
from fairbandit.registry import NonNegative, register
from fairbandit.selectors.base import Ranked, Selector, best
from fairbandit.selectors.inclusion import capped_shares


class GroupChance(Enum):
    """The probability that a group is drawn."""

    uniform = "equal for all groups in the pool"
    pool = "in proportion to the group's candidates in the pool"


@register("selector", "group_parity")
@dataclass(kw_only=True, eq=False)
class GroupParity(Selector):
    """A group drawn at random, and the best candidate in it.

    P(a) = P(g)/#ties for the candidates a of group g that tie with the best of g, and 0 for all
    other candidates. With `uniform`, P(g) is 1 over the number of groups in the pool; with `pool`,
    P(g) is the share of group g in the pool. Only groups in the pool are drawn.

    With `uniform`, groups that are in the same pools are picked equally often, in expectation. With
    `pool`, the expected number of picks of a group is in proportion to its candidates: in pools of
    the same size, the selection rates of all groups are equal.

    For m picks, the best candidates of group g get c·P(g) places in expectation, at most one for
    each of its candidates, with c such that the places of all groups sum to m.

    Args:
        chance: P(g): `uniform` or `pool`.
    """

    reference = (
        "After the baselines of Schumann, Lang, Mattei, Dickerson, Group Fairness in Bandits with "
        "Biased Feedback, AAMAS 2022"
    )

    chance: GroupChance = GroupChance.uniform

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        groups, present = ranked.groups, ranked.present.to(torch.float64)
        sizes = present.new_zeros(*present.shape[:2], ranked.problem.groups)
        sizes = sizes.scatter_add(2, groups.clamp(min=0), present)
        if self.chance is GroupChance.pool:
            places = (picks * sizes / sizes.sum(2, keepdim=True).clamp(min=1)).minimum(sizes)
        else:
            places = capped_shares(torch.zeros_like(sizes), sizes, sizes.new_full((1, 1, 1), picks))
        return best(ranked.index, present, places, groups)


@register("selector", "minimum_pull")
@dataclass(kw_only=True, eq=False)
class MinimumPull(Selector):
    """The best candidate of the group furthest below its share, if by more than α picks.

    Before round t, group g has the deficit r_g·(t − 1) − N_g(t − 1), where N_g counts its picks. If
    the largest deficit among the groups in the pool is above α, the best candidate of that group is
    picked, and otherwise the best candidate of the pool. Groups whose deficits are equal, up to
    rounding, are treated as a single group.

    If every pool holds all groups, one candidate is picked and r_g ≤ 1/G, the deficit
    r_g·t − N_g(t) never exceeds α + 1, for any index. Proof by induction on the rounds: for
    j = 1 … G, at most G − j groups have a deficit above α + j/G. In a round each deficit grows by
    at most 1/G. If no deficit was above α, all are at most α + 1/G after the round. Otherwise the
    largest deficit, at most α + 1, falls to at most α + 1/G. Any other group that now has a deficit
    above α + j/G had a deficit above α + (j − 1)/G before, like the picked group; at most G − j + 1
    groups had. With larger shares the bound may fail: with the shares 0, 0.85 and 0.1 and α = 0, a
    deficit may be 1.25.

    For m picks, each group with a deficit above α gets one place, in descending order of deficit;
    groups with equal deficits share the last places. The best remaining candidates get the rest.
    The deficit is then r_g·N(t − 1) − N_g(t − 1), where N counts the picks of all groups.

    The paper has arms in the place of groups, and all arms are available in every round. As an
    extension, the deficit of a group that is absent from a pool keeps growing, and is made up when
    the group returns. A group that appears online has the deficit of all rounds so far. The paper's
    shares sum to less than 1, to leave room for learning; here the sum may be 1, too.

    Args:
        shares: r, a number from 0 to 1 for all groups, or a list with a number for each group in
            their order; the shares sum to at most 1. None is min(0.1, 1/(2G)) for each group. A
            list refuses groups that appear online, since it does not contain their shares.
        tolerance: α ≥ 0, the deficit that a group may have without consequence.

    Raises:
        FairbanditError: a value out of range; at the first decision, a list whose length is not the
            number of groups, or shares that sum to more than 1.
    """

    reference = (
        "Patil, Ghalme, Nair, Narahari, Achieving Fairness in the Stochastic Multi-armed Bandit "
        "Problem, AAAI 2020"
    )
    needs = frozenset({"picks"})

    shares: Any = None
    tolerance: NonNegative = 0.0

    def __post_init__(self) -> None:
        group_shares(self.shares)

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        deficit, rounding = self._deficit(ranked)
        groups, present = ranked.groups, ranked.present.to(deficit.dtype)
        if picks == 1:  # groups with equal deficits are treated as a single group
            of_candidate = deficit.gather(2, groups.clamp(min=0)).where(ranked.present, -math.inf)
            most = of_candidate.amax(2, keepdim=True)
            due = (of_candidate >= most - rounding) | (most <= self.tolerance + rounding)
            return best(ranked.index, due & ranked.present, 1)
        size = torch.zeros_like(deficit).scatter_add_(2, groups.clamp(min=0), present)
        due = (size > 0) & (deficit > self.tolerance + rounding)
        deficit = deficit.where(due, -math.inf)
        more = deficit[..., None] - deficit[..., None, :]  # of group g minus group h
        before = (more < -rounding[..., None]).sum(3, dtype=deficit.dtype)
        equal = (more.abs() <= rounding[..., None]).sum(3)
        owed = ((picks - before) / equal).clamp(0, 1).where(due, 0)
        first = best(ranked.index, present, owed, groups)
        left = picks - first.sum(2, keepdim=True)
        return first + best(ranked.index, present - first, left)

    def _deficit(self, ranked: Ranked) -> tuple[Tensor, Tensor]:
        counts = ranked.pick_counts
        total = counts.sum(2, keepdim=True)
        shares = ranked.index.value.new_tensor(group_shares(self.shares, ranked.problem.groups))
        return shares * total - counts, ROUNDING * (total + 1).to(shares.dtype)


def group_shares(given: Any, groups: int | None = None) -> list[float]:
    """The share of each of G groups, from a list of shares or from a single number for all groups.

    None stands for min(0.1, 1/(2G)), at most half of an equal share. If G is not known yet, the
    given shares are checked alone.

    >>> group_shares(None, groups=3), group_shares([0.2, 0.1], groups=2)
    ([0.1, 0.1, 0.1], [0.2, 0.1])
    """
    if given is None:
        return [min(0.1, 0.5 / groups)] * groups if groups else []
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    shares = list(given) if listed else [given] * (1 if groups is None else groups)
    if not all(type(share) in (int, float) and 0 <= share <= 1 for share in shares):
        raise FairbanditError(
            "shares (r): expected a number from 0 to 1 for all groups, or a list with a number for "
            f"each group; got {typed(given)}"
        )
    if groups is not None and len(shares) != groups:
        raise FairbanditError(
            f"shares (r): expected one for each of {groups} groups, or one number for all; got "
            f"{len(shares)}: {given}"
        )
    if math.fsum(shares) > 1:
        raise FairbanditError(
            f"shares (r) must sum to at most 1; got {given}, {math.fsum(shares):g} for all "
            f"{len(shares)} groups"
        )
    return [float(share) for share in shares]
