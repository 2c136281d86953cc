"""The rank that the paper argues against: among rewards with their noise."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.ranks.base import Rank
from fairbandit.registry import register
from fairbandit.scored import Scored

WORK = 1 << 22
"""How many comparisons are made at a time."""


@register("rank", "noisy_rewards_cdf")
class NoisyRewardsCdf(Rank):
    """Share of the group's observed noisy rewards that are no higher than the candidate's score.

    n⁻¹ Σ 1{rᵢ ≤ s} over the n past picks of the group in the round's window. It is a biased rank
    in two ways: rᵢ is a reward with its noise, whose CDF is not that of the reward, and picks are
    no random sample of the group. The window is the split's, as for every other rank: under
    `halves` the rewards that rank are not those that trained the model, under `full` they are
    those of all past rounds. A candidate of a group of which the window holds no pick gets a rank
    drawn from U(0, 1).
    """

    reference = (
        "Kearns, Roth and Wu, Meritocratic Fairness for Cross-Population Selection, ICML 2017"
    )
    needs = frozenset({"rewards"})

    def _last_reward_read(self, t: int) -> int:
        return t - 1

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
