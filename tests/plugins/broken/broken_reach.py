"""A rank with one fault: it reads rewards later than its reach says."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_reach")
class Peeking(Rank):
    """How many of all rewards known the score exceeds, with a reach of no reward at all."""

    reference = "these tests"
    needs = frozenset({"rewards"})

    def _index(self, candidates: Candidates) -> Tensor:
        rewards = candidates.history.outcomes(0, candidates.history.played).rewards
        below = rewards[:, None, None] <= candidates.scores[..., None]
        return below.to(torch.float64).sum(-1) / max(rewards.shape[1], 1)
