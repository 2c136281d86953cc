"""The paper's ranks: scores, the groups' empirical CDFs, the true CDFs, and a trade-off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from fairbandit.estimators.ties import Approximate
from fairbandit.ranks.base import Rank, Scored
from fairbandit.registry import PAPER, Share, register
from fairbandit.registry.signatures import Range

MOST_KEPT = 1_000_000  # the largest `size` of `recent_cdf`, which exists to keep few contexts


@register("rank", "identity")
class Identity(Rank):
    """The score itself: rewards of different groups are compared as they are."""

    reference = PAPER

    def _index(self, scored: Scored) -> Approximate:
        return scored.scores

    def _bounds(self, scored: Scored, index: Approximate) -> tuple[Tensor, Tensor]:
        return scored.bounds()


@register("rank", "oracle_cdf")
class OracleCdf(Rank):
    """The group's true reward CDF at the candidate's score.

    F_g(⟨θ, x⟩), the rank of the paper's Fair-Greedy (Oracle CDF) and of the GMF policy (App. D.2).
    """

    reference = PAPER
    needs = frozenset({"truth"})

    def _index(self, scored: Scored) -> Tensor:
        truth = scored.problem.truth
        assert truth is not None
        highest = scored.scores.greatest_tie  # ties in a sample count, too
        return truth.cdf(scored.groups, highest, scored.rounds[:, None])


@register("rank", "empirical_cdf")
class EmpiricalCdf(Rank):
    """Share of the group's past contexts that score no higher under this round's model.

    F̂_t(⟨θ, x⟩, g) = N⁻¹ Σ 1{⟨θ, x′⟩ ≤ ⟨θ, x⟩} over the N past contexts x′ of group g in the
    round's window (Algorithm 2, line 6). For N = 0, where the paper defines no rank, each
    candidate gets its own rank drawn from U(0, 1).
    """

    reference = PAPER
    needs = frozenset({"contexts"})

    def _index(self, scored: Scored) -> Tensor | Approximate:
        return self._share(scored)

    def _share(self, scored: Scored) -> Tensor:
        past = scored.past
        return scored.drawn_where(past.count == 0, past.count_le() / past.count)


@register("rank", "recent_cdf")
@dataclass(kw_only=True, eq=False)
class RecentCdf(EmpiricalCdf):
    """Share of the group's last m contexts that score no higher under this round's model.

    F̂(s) = n⁻¹ Σ 1{sᵢ ≤ s} over the n ≤ m contexts that are in the round's window and among the
    last m contexts of the group before the round, all scored under this round's model. This is
    `empirical_cdf` with bounded memory: memory and work per round do not grow with the rounds. If
    the group's contexts are independent and the model does not depend on them, sup |F̂ − F| exceeds
    √(ln(2/δ)/(2n)) with probability at most δ. For n = 0 the rank is drawn from U(0, 1).

    Args:
        size: m, from 1 to `MOST_KEPT`.
    """

    reference = (
        f"{PAPER}; the bound: Massart, The tight constant in the Dvoretzky-Kiefer-Wolfowitz "
        "inequality, Annals of Probability 1990"
    )

    size: Annotated[int, Range(1, MOST_KEPT)] = 200

    def __post_init__(self) -> None:
        self.max_contexts = self.size


@register("rank", "tradeoff")
@dataclass(kw_only=True, eq=False)
class Tradeoff(EmpiricalCdf):
    """A weighted mean of the empirical rank within the group and the standardised score.

    (1 − α)·F̂_g(s) + α·(s − m)/v. F̂_g is the index of `empirical_cdf`. m and v are the mean and
    the standard deviation (divisor n) of the scores of all n past contexts in the round's window
    under this round's model; contexts of all groups count, so that the whole pool has one scale.
    With α = 0 the policy decides like `empirical_cdf` and is group meritocratic; with α = 1 it
    decides like `identity` and maximises the reward. If the window is empty, m = 0; if past scores
    do not differ, v = 1.

    Args:
        alpha: α in [0, 1].
    """

    reference = f"{PAPER}: the trade-off that its conclusion leaves open"

    alpha: Share = 0.5

    def _index(self, scored: Scored) -> Approximate:
        mean, deviation = _scale(scored)
        value, slack = scored.scores
        score = (value - mean) / deviation
        index = (1 - self.alpha) * self._share(scored) + self.alpha * score
        return Approximate(index, self.alpha * slack / deviation)


def _scale(scored: Scored) -> tuple[Tensor, Tensor]:
    """m and v, (B, N, 1) each."""
    groups = scored.past.of()
    count = groups.count
    share = count / count.sum(2, keepdim=True).clamp(min=1)
    any_past = count > 0
    means, variances = (part.where(any_past, 0) for part in groups.moments)
    mean = (share * means).sum(2, keepdim=True)
    spread = variances + (means - mean) ** 2
    deviation = (share * spread).sum(2, keepdim=True).sqrt()
    return mean, torch.where(deviation <= scored.tolerance, 1.0, deviation)
