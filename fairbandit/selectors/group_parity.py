"""A group at random, and its best candidate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from fairbandit.registry import register
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
