"""A group's empirical CDF in bounded memory: its latest contexts only."""

from __future__ import annotations

from fairbandit.errors import FairbanditError
from fairbandit.part import PAPER
from fairbandit.ranks.empirical_cdf import EmpiricalCdf
from fairbandit.registry import register

MOST_KEPT = 1_000_000
"""The largest `size`; the rank exists to keep few contexts."""


@register("rank", "recent_cdf")
class RecentCdf(EmpiricalCdf):
    """Share of the group's last m contexts whose score, under this round's model, is no higher.

    F̂(s) = n⁻¹ Σ 1{sᵢ ≤ s} over the n ≤ m contexts that are both in the round's window and among
    the last m of the group before the round, all scored again under this round's model. It is
    `empirical_cdf` with a bounded memory: memory and work a round do not grow with the rounds. If
    the group's contexts are independent and the model does not depend on them, |F̂ − F| exceeds
    √(ln(2/δ)/(2n)) anywhere with probability at most δ. A candidate of a group without such
    contexts gets a rank drawn from U(0, 1).

    Args:
        size: m, from 1 to `MOST_KEPT`.

    Raises:
        FairbanditError: a size out of range.
    """

    reference = (
        f"{PAPER}; the bound: Massart, The tight constant in the Dvoretzky-Kiefer-Wolfowitz "
        "inequality, Annals of Probability 1990"
    )

    def __init__(self, *, size: int = 200) -> None:
        if not 1 <= size <= MOST_KEPT:
            raise FairbanditError(f"size must be from 1 to {MOST_KEPT:,}, got {size}")
        self.size = self.max_contexts = size
