"""A group at random, and its best candidate."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.maths.inclusion import proportional
from fairbandit.registry import register
from fairbandit.selectors.base import Selector, best_first, best_of_groups


class GroupChance(Enum):
    """How likely a group is to be drawn."""

    uniform = "all groups in the pool alike"
    pool = "in proportion to its candidates in the pool"


@register("selector", "group_parity")
class GroupParity(Selector):
    """A group drawn at random, and the best candidate in it.

    P(a) = P(g)/#ties for the candidates a of group g that tie with the best of g, and 0 for the
    others. P(g) is 1 over the number of groups in the pool, or the part of the pool that is of
    group g. Only groups in the pool are drawn.

    With `uniform`, groups that are in the same pools are picked equally often, in expectation. With
    `pool`, the expected number of picks of a group is in proportion to its candidates, so that in
    pools of one size the selection rates of all groups are equal.

    Of m picks, group g expects c·P(g) places, at most its candidates, with the c for which all
    groups expect m; its best get them.

    Args:
        chance: P(g): `uniform` or `pool`.
    """

    reference = (
        "After the baselines of Schumann, Lang, Mattei, Dickerson, Group Fairness in Bandits with "
        "Biased Feedback, AAMAS 2022"
    )

    def __init__(self, *, chance: GroupChance = GroupChance.uniform) -> None:
        self.chance = chance

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        weights = best_of_groups(candidates, index)
        if self.chance is GroupChance.pool:
            own, present = candidates.groups.clamp(min=0), candidates.present.to(index.dtype)
            none = index.new_zeros(*index.shape[:2], candidates.problem.groups)
            weights = weights * none.scatter_add(2, own, present).gather(2, own)
        return weights

    def _inclusion(self, candidates: Candidates, index: Tensor, picks: int) -> Tensor:
        own, present = candidates.groups.clamp(min=0), candidates.present.to(index.dtype)
        none = index.new_zeros(*index.shape[:2], candidates.problem.groups)
        sizes = none.scatter_add(2, own, present)
        if self.chance is GroupChance.pool:
            places = (picks * sizes / sizes.sum(2, keepdim=True).clamp(min=1)).minimum(sizes)
        else:
            places = proportional(torch.zeros_like(sizes), sizes, index.new_full((1, 1, 1), picks))
        if places.amax() <= 1:
            return best_of_groups(candidates, index, places)
        return best_first(candidates, index, present, places, own)
