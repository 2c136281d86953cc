"""Ridge regression with a posterior draw in each round."""

from __future__ import annotations

import math

from fairbandit.errors import FairbanditError
from fairbandit.maths.gaussian import of_root, of_sums
from fairbandit.maths.solves import QRSolve
from fairbandit.parts.history import Outcomes
from fairbandit.parts.model import LinearModel, RewardModel
from fairbandit.parts.ridge import Ridge
from fairbandit.registry import register
from fairbandit.streams import Purpose


@register("estimator", "thompson_ridge")
class ThompsonRidge(Ridge):
    """Ridge regression whose model of each round is drawn from N(θ̂, v²V⁻¹): Thompson sampling.

    θ̃_t = θ̂ + v·L⁻ᵀz_t with θ̂ = V⁻¹b, LLᵀ = V (L lower triangular with a positive diagonal), V
    and b as in `Ridge` without noise, and z_t standard normal, drawn once for each round t. If v is
    the standard deviation of Gaussian noise and θ ~ N(0, v²/λ·I), this is the exact posterior. The
    paper has λ = 1, and its regret bound needs a v that is larger by √d, up to logarithms; a
    constant v near the noise's own explores less, without that bound. The paper draws from the
    prior before there is a reward; here all candidates tie then, as under each estimator that has
    learned from no reward.

    Args:
        scale: v ≥ 0; with 0 it is `Ridge` without noise.
        regularization: λ > 0.

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    reference = (
        "Agrawal, Goyal, Thompson Sampling for Contextual Bandits with Linear Payoffs, ICML 2013"
    )
    every_round = True
    most_pending = 0

    def __init__(self, *, scale: float = 1.0, regularization: float = 0.1) -> None:
        super().__init__(regularization=regularization, noise=0.0)
        if not 0 <= scale < math.inf:
            raise FairbanditError(f"scale (v) must be at least 0 and finite, got {scale}")
        self.scale = scale

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        theta, solutions = self._solve(n_train, outcomes)
        first = rounds[0]
        stream = self.problem.streams[Purpose.ESTIMATOR]
        z = stream.normal(first, rounds[-1] - first + 1, self.problem.features)
        z = z[:, [t - first for t in rounds]]
        if isinstance(solutions, QRSolve):
            drawn = of_root(solutions.factor, z)
        else:
            contexts, _, at = self._new_rows(n_train, outcomes)
            drawn = of_sums(self._V, contexts, at, z)
        return LinearModel(theta + self.scale * drawn)
