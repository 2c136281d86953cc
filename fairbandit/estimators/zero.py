"""A model without knowledge."""

from __future__ import annotations

from fairbandit.estimators.base import Estimator
from fairbandit.estimators.models import LinearModel, RewardModel
from fairbandit.history import Outcomes, State
from fairbandit.history.problem import Problem
from fairbandit.registry import register
from fairbandit.registry.part import PAPER


@register("estimator", "zero")
class Zero(Estimator):
    """A model without knowledge: θ = 0, so that all scores tie."""

    reference = PAPER
    learns = False

    def _models(
        self,
        problem: Problem,
        state: State,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        return LinearModel(problem.zeros(problem.replicas, 1, problem.features))
