"""Ridge regression, with the paper's injected noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import Estimator, LinearModel, RewardModel, check_size
from fairbandit.estimators.evidence import Evidence
from fairbandit.estimators.regressions import Regression, Regressions
from fairbandit.estimators.ties import NOISY, PLAIN
from fairbandit.history.outcomes import Outcomes
from fairbandit.history.problem import Problem
from fairbandit.registry import register
from fairbandit.registry.register import PAPER, Share
from fairbandit.streams import Purpose

AUTO = "auto"
"""The regularization that the rewards choose."""


@register("estimator", "ridge")
@dataclass(kw_only=True, eq=False)
class Ridge(Estimator):
    """Ridge regression on the picks and their rewards, with the paper's injected noise.

    V_n = Σ_{s≤n} x_s x_sᵀ + λI, b_n = Σ_{s≤n} r_s x_s, θ_n = V_n⁻¹ b_n + ρ/(d√n)·γ_n with γ_n
    standard normal, drawn once for each n (Algorithms 1 and 2, line 5).

    With noise, scores tie within the rounding error of the last product; without noise, within 1e-9
    of the sum of their absolute terms. See `fairbandit.estimators.ties`.

    Args:
        regularization: λ > 0; or `auto`, the λ of the largest marginal likelihood of the rewards,
            anew for each n. See `fairbandit.estimators.evidence`.
        noise: ρ in [0, 1]; 0 is plain ridge.
    """

    reference = PAPER

    regularization: float | int | str = 0.1
    noise: Share = 1e-8

    def __post_init__(self) -> None:
        fixed = self.regularization
        if fixed != AUTO and not (isinstance(fixed, float | int) and 0 < fixed < math.inf):
            raise FairbanditError(
                f"regularization (λ) must be above 0 and finite, or {AUTO}, got {fixed}"
            )

    def init(self, problem: Problem) -> Regression | Evidence:
        """The sums before any outcome."""
        width = self._width(problem)
        gram = problem.zeros(problem.replicas, 1 + width, 1 + width)
        if self.regularization == AUTO:
            return Evidence(gram, problem.zeros(problem.replicas))
        return self._with_penalty(gram, width)

    def _models(
        self,
        problem: Problem,
        state: Regression | Evidence,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        at = outcomes.counts(n_train)
        solved = state.after(self._rows(state, outcomes.rows(0, at[-1])), at)
        theta = solved.theta
        if self.noise > 0 and n_train[-1] > 0:
            theta = theta + self._injected(problem, n_train)
        return self._model(problem, solved, n_train, theta)

    def _advance(self, state: Regression | Evidence, outcomes: Outcomes) -> Regression | Evidence:
        if isinstance(state, Regression):
            check_size(outcomes.contexts, float(self.regularization))
        return state.with_rows(self._rows(state, outcomes))

    def grow(self, state: Regression | Evidence, problem: Problem) -> Regression | Evidence:
        """The sums with features of new groups; see `Estimator.grow`."""
        added = 1 + self._width(problem) - state.gram.shape[1]
        if not added:
            return state
        gram = pad(state.gram, (0, added, 0, added))
        if isinstance(state, Evidence):
            return state._replace(gram=gram)
        return self._with_penalty(gram, added)

    def _width(self, problem: Problem) -> int:
        return problem.features

    def _regressors(self, width: int, outcomes: Outcomes) -> Tensor:
        return outcomes.contexts

    def _rows(self, state: Regression | Evidence, outcomes: Outcomes) -> Tensor:
        if not outcomes.n:
            return state.gram[:, :0]
        regressors = self._regressors(state.gram.shape[1] - 1, outcomes)
        return torch.cat([outcomes.rewards[..., None], regressors], 2)

    def _model(
        self, problem: Problem, solved: Regressions, n_train: list[int], theta: Tensor
    ) -> RewardModel:
        """The reward model of θ, (B, U, width), which includes the noise."""
        return LinearModel(theta, NOISY if self.noise else PLAIN)

    def _injected(self, problem: Problem, n_train: list[int]) -> Tensor:
        """The noise ρ/(d√n)·γ_n for each n, (B, U, d); 0 for n = 0."""
        first, d = max(n_train[0], 1), problem.features
        drawn = problem.streams[Purpose.ESTIMATOR].normal(first, n_train[-1] - first + 1, d)
        if len(n_train) == 1:
            return drawn * (self.noise / (d * math.sqrt(first)))
        at = torch.tensor(n_train, device=drawn.device)
        if len(n_train) != drawn.shape[1] or n_train[0] == 0:
            drawn = drawn[:, (at - first).clamp(min=0)]
        scale = (self.noise / (d * at.to(drawn.dtype).sqrt())).where(at > 0, 0)
        return drawn * scale[:, None]

    def _with_penalty(self, gram: Tensor, features: int) -> Regression:
        gram = gram.clone()
        gram.diagonal(dim1=1, dim2=2)[:, gram.shape[1] - features :] = float(self.regularization)
        return Regression.of(gram)
