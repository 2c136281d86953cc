"""A model without knowledge."""

from __future__ import annotations

from fairbandit.estimators.base import Estimator
from fairbandit.models import LinearModel, RewardModel
from fairbandit.part import PAPER, Problem
from fairbandit.past import Outcomes, State
from fairbandit.registry import register


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
