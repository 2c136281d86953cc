"""Ridge regression with a posterior draw in each round."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fairbandit.estimators.base import LinearModel, RewardModel
from fairbandit.estimators.evidence import Evidence
from fairbandit.estimators.regressions import Regression, factors
from fairbandit.estimators.ridge import Ridge
from fairbandit.history.outcomes import Outcomes
from fairbandit.history.problem import Problem
from fairbandit.registry import register
from fairbandit.registry.register import NonNegative
from fairbandit.streams import Purpose


@register("estimator", "thompson_ridge")
@dataclass(kw_only=True, eq=False)
class ThompsonRidge(Ridge):
    """Ridge regression whose model of each round is drawn from N(θ̂, v²V⁻¹): Thompson sampling.

    θ̃_t = θ̂ + v·L⁻ᵀz_t with θ̂ = V⁻¹b, LLᵀ = V (L lower triangular with a positive diagonal), V
    and b as in `Ridge` without noise, and z_t standard normal, drawn once for each round t. If v is
    the standard deviation of Gaussian noise and θ ~ N(0, v²/λ·I), this is the exact posterior. The
    paper sets λ = 1, and its regret bound needs v larger by a factor of √d, up to logarithms. A
    constant v near the standard deviation of the noise explores less, and the bound does not apply.
    Before the first reward the paper draws from the prior; here all candidates tie, as under every
    estimator that learns.

    Args:
        scale: v ≥ 0; 0 gives `Ridge` without noise.
        regularization: λ > 0, or `auto`; see `Ridge`.
    """

    reference = (
        "Agrawal, Goyal, Thompson Sampling for Contextual Bandits with Linear Payoffs, ICML 2013"
    )
    draws_models = True

    scale: NonNegative = 1.0
    noise: float = field(default=0.0, init=False)

    def _models(
        self,
        problem: Problem,
        state: Regression | Evidence,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        if not self.scale:
            return super()._models(problem, state, rounds, n_train, outcomes)
        first, last = rounds[0], rounds[-1]
        z = problem.streams[Purpose.ESTIMATOR].normal(first, last - first + 1, problem.features)
        if len(rounds) < z.shape[1]:
            z = z[:, [t - first for t in rounds]]
        at = outcomes.counts(n_train)
        rows = self._rows(state, outcomes.rows(0, at[-1]))
        if isinstance(state, Evidence):
            theta, root, *_ = state.after(rows, at)
            return LinearModel(theta + self.scale * (root @ z[..., None])[..., 0])
        drawn, low = list[Tensor](), 0
        for lower, _ in factors(state.gram, rows, at):  # in pieces that stay in cache
            high = low + lower.shape[1]
            normal = z[:, low:high, :, None]
            drawn.append(torch.linalg.solve_triangular(lower.mT, normal, upper=True)[..., 0])
            low = high
        theta = state.after(rows, at).theta
        return LinearModel(theta + self.scale * torch.cat(drawn, 1))
