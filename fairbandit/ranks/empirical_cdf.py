"""Fair-Greedy's rank: the empirical CDF of the group's past contexts."""

from __future__ import annotations

from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.part import PAPER
from fairbandit.ranks.base import Rank
from fairbandit.registry import register


@register("rank", "empirical_cdf")
class EmpiricalCdf(Rank):
    """Share of the group's past contexts whose score, under this round's model, is no higher.

    F̂_t(⟨θ, x⟩, g) = N⁻¹ Σ 1{⟨θ, x′⟩ ≤ ⟨θ, x⟩} over the N past contexts x′ of group g in the
    round's window (Algorithm 2, line 6). A candidate of a group that the window lacks gets a rank
    drawn from U(0, 1), each candidate its own: the paper leaves it undefined.
    """

    reference = PAPER
    needs = frozenset({"contexts"})

    def _index(self, candidates: Candidates) -> Tensor:
        past = candidates.past
        return candidates.drawn_where(past.count == 0, past.count_le() / past.count)
