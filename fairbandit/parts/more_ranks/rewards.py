"""The rank that the paper argues against: among rewards with their noise."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.parts.candidates import Candidates
from fairbandit.parts.ranks import Rank
from fairbandit.registry import register


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
    draws = True

    def last_reward_read(self, t: int) -> int:
        """The last round before t: its reward ranks."""
        return t - 1

    def _index(self, candidates: Candidates) -> Tensor:
        division = candidates.division
        low, high = int(division.start.min()), int(division.stop.max())
        groups, rewards = candidates.rewards(low, high)
        rounds = torch.arange(low + 1, high + 1, device=groups.device)
        window = (rounds > division.start[:, None]) & (rounds <= division.stop[:, None])
        same = groups[:, None, None] == candidates.groups[..., None]
        same &= window[:, None]
        below = same & (rewards[:, None, None] <= candidates.upper_scores[..., None])
        count = same.sum(3)
        return candidates.drawn_where(count == 0, below.sum(3, dtype=torch.float64) / count)
