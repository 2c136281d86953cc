"""The true relative rank of an estimated reward."""

from __future__ import annotations

from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.part import PAPER
from fairbandit.ranks.base import Rank
from fairbandit.registry import register


@register("rank", "oracle_cdf")
class OracleCdf(Rank):
    """The group's true reward CDF at the candidate's score.

    F_g(⟨θ, x⟩), the rank of the paper's Fair-Greedy (Oracle CDF) and of the GMF policy (App. D.2).
    """

    reference = PAPER
    needs_truth = True

    def _index(self, candidates: Candidates) -> Tensor:
        truth = candidates.problem.truth
        assert truth is not None
        top = candidates.top  # members of a sample that tie count too
        return truth.cdf(candidates.groups, top, candidates.rounds[:, None])
