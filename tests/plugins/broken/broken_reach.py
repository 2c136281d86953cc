"""A rank with one fault: it reads rewards later than it says."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_reach")
class Peeking(Rank):
    """How many of all rewards known the score exceeds, and says that it reads none."""

    reference = "these tests"
    needs = frozenset({"rewards"})

    def _index(self, candidates: Candidates) -> Tensor:
        rewards = candidates.outcomes(0, candidates.history.played).rewards
        below = rewards[:, None, None] <= candidates.scores[..., None]
        return below.to(torch.float64).sum(-1) / max(rewards.shape[1], 1)
