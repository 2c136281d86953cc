"""A rank with one fault: it reads old rewards without declaring that it needs them."""

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Rank


@register("rank", "broken_needs")
class Undeclared(Rank):
    """How many of all past rewards the score exceeds."""

    reference = "these tests"

    def last_reward_read(self, t: int) -> int:
        return t - 1

    def _index(self, candidates: Candidates) -> Tensor:
        _, rewards = candidates.rewards(0, candidates.first - 1)
        return (rewards[:, None, None] <= candidates.scores[..., None]).double().mean(-1)
