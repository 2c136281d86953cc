"""A rank with one fault: it changes the past rewards."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_past")
class Rewriting(Rank):
    """How many of all past rewards, made positive, the score exceeds."""

    reference = "these tests"
    needs = frozenset({"rewards"})

    def last_reward_read(self, t: int) -> int:
        return t - 1

    def _index(self, candidates: Candidates) -> Tensor:
        _, rewards = candidates.rewards(0, candidates.first - 1)
        below = rewards.abs_()[:, None, None] <= candidates.scores[..., None]
        return below.double().mean(-1)
