"""Models that do not learn: the true rewards, and none."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.environments.base import Truth
from fairbandit.estimators.base import Estimator, LinearModel, RewardModel, Rounds
from fairbandit.history import Outcomes, Problem, State
from fairbandit.registry import PAPER, register


class TrueLinearModel(LinearModel):
    """True rewards that are linear; both bounds equal the rewards."""

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        return (self.score(contexts, groups),) * 2


class TrueModel(RewardModel):
    """True rewards of rounds t, (B, U), that are not linear; both bounds equal the rewards."""

    def __init__(self, truth: Truth, rounds: Tensor) -> None:
        super().__init__(rounds)
        self._truth = truth

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        (rounds,) = self.parameters
        u = rounds.shape[1]
        contexts, groups = contexts.expand(-1, u, -1, -1), groups.expand(-1, u, -1)
        return self._truth.score(contexts, groups, rounds[..., None])

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        return (self.score(contexts, groups),) * 2


@register("estimator", "oracle")
class Oracle(Estimator):
    """The true rewards, such as ⟨μ*, x⟩."""

    reference = PAPER
    needs = frozenset({"truth"})
    learns = False

    def _models(
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        truth = problem.truth
        assert truth is not None
        if truth.theta is not None:
            return TrueLinearModel(truth.theta.expand(problem.replicas, 1, -1))
        numbers = torch.tensor(rounds, device=problem.device)
        return TrueModel(truth, numbers.expand(problem.replicas, -1))


@register("estimator", "zero")
class Zero(Estimator):
    """A model without knowledge: θ = 0, so that all scores tie."""

    reference = PAPER
    learns = False

    def _models(
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        return LinearModel(problem.zeros(problem.replicas, 1, problem.features))
