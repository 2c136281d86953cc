"""The rank among observed, noisy rewards, which the paper argues against."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.ranks.base import Rank, Scored
from fairbandit.registry import register

WORK = 1 << 22  # the number of comparisons made at a time


@register("rank", "noisy_rewards_cdf")
class NoisyRewardsCdf(Rank):
    """Share of the group's observed noisy rewards that are no higher than the candidate's score.

    n⁻¹ Σ 1{rᵢ ≤ s} over the n past picks of the group in the round's window. The rank has
    two biases: the CDF of the noisy rewards rᵢ differs from the CDF of true rewards, and picks are
    not a random sample of the group. The split sets the window: under `halves`, it excludes rewards
    that trained the model; under `full`, it holds all past rounds. A candidate gets a rank drawn
    from U(0, 1) if the window holds no pick of its group.
    """

    reference = (
        "Kearns, Roth and Wu, Meritocratic Fairness for Cross-Population Selection, ICML 2017"
    )
    needs = frozenset({"rewards"})

    def _index(self, scored: Scored) -> Tensor:
        rounds, _, groups, rewards = scored.outcomes
        start, stop = scored.rank_window
        highest = scored.scores.greatest_tie
        count, below = torch.zeros_like(highest), torch.zeros_like(highest)
        size = max(1, WORK // highest.numel())
        pieces = (part.split(size, -1) for part in (rounds, groups, rewards))
        for t, group, reward in zip(*pieces, strict=True):
            window = (t > start[:, None]) & (t <= stop[:, None])
            same = (group[:, None, None] == scored.groups[..., None]) & window[:, None]
            count += same.sum(3)
            below += (same & (reward[:, None, None] <= highest[..., None])).sum(3)
        return scored.drawn_where(count == 0, below / count)
