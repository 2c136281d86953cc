"""A rank with one fault: it remembers, and does not say so in its state."""

import torch
from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Problem, Rank


@register("rank", "broken_state")
class Forgetful(Rank):
    """The score above the average score of all past contexts, whose sum is not saved."""

    reference = "these tests"

    def last_reward_read(self, t: int) -> int:
        return t - 1

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._sum, self._rounds = problem.zeros(problem.replicas, problem.features), 0

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        self._sum = self._sum + contexts.sum((1, 2))
        self._rounds += contexts.shape[1]

    def _index(self, candidates: Candidates) -> Tensor:
        above = candidates.contexts - self._sum[:, None, None] / max(self._rounds, 1)
        return torch.sigmoid(candidates.own_model.score(above, candidates.groups))
