"""Ridge regression with discounted rewards and the confidence bonus of D-LinUCB."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from fairbandit.estimators.base import LinearModel, RewardModel, check_size
from fairbandit.estimators.optimistic_ridge import OptimisticModel, OptimisticRidge
from fairbandit.estimators.regressions import Regressions, cholesky
from fairbandit.history import Outcomes, State
from fairbandit.history.problem import Problem
from fairbandit.registry import register
from fairbandit.registry.register import NonNegative
from fairbandit.registry.signatures import Range


@register("estimator", "forgetting_ridge")
class ForgettingRidge(OptimisticRidge):
    """Discounted least squares with the bonus of D-LinUCB, for rewards that drift.

    After n training rounds, a pick of round s has the weight γ^{n−s}, even if its reward came late.
    The penalty is not discounted. If W is the diagonal matrix of the weights, V_n = XᵀWX + λI,
    Ṽ_n = XᵀW²X + λI, θ_n = V_n⁻¹XᵀWr and score(x) = ⟨θ_n, x⟩ + c·β_n·‖x‖ in the norm of
    V_n⁻¹ Ṽ_n V_n⁻¹. β_n is the practical radius of `OptimisticRidge` with det Ṽ_n; it includes no
    term for the drift. With γ = 1 this is `optimistic_ridge` without noise. With c = 0 scores are
    linear and have no bounds.

    Args:
        discount: γ in (0, 1]; a reward that is 1/(1 − γ) rounds old has a weight of about 1/e.
        exploration: c ≥ 0; None takes the environment's exploration.
        regularization: λ > 0.
    """

    reference = "Russac et al., Weighted Linear Bandits for Non-Stationary Environments, 2019"

    def __init__(
        self,
        *,
        discount: Annotated[float, Range(0, 1, above=True)] = 0.98,
        exploration: NonNegative | None = None,
        regularization: float = 0.1,
    ) -> None:
        super().__init__(exploration=exploration, regularization=regularization)
        self.discount = discount

    def init(self, problem: Problem) -> State:
        """The sums before any outcome."""
        width = problem.features + 1
        return 0, problem.zeros(problem.replicas, 2, width, width)

    def _models(
        self,
        problem: Problem,
        state: State,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        sums = self._sums(state, outcomes, n_train)
        sums.diagonal(dim1=3, dim2=4)[..., 1:] += float(self.regularization)
        solved = Regressions.of(sums[:, 0])
        if not self._scale(problem):
            return LinearModel(solved.theta)
        lower = cholesky(sums[:, 1])
        width = self._radius(problem, 2 * lower.diagonal(dim1=2, dim2=3).log().sum(2), n_train)
        solved = solved._replace(root=solved.root @ (solved.root.mT @ lower))  # V⁻¹L, LLᵀ = Ṽ
        return OptimisticModel(solved.theta, width, solved)

    def _advance(self, state: State, outcomes: Outcomes) -> State:
        last = max(state[0], int(outcomes.rounds[-1]))
        return last, self._sums(state, outcomes, [last])[:, :, 0]

    def grow(self, state: State, problem: Problem) -> State:
        """The sums with features of new groups; see `Estimator.grow`."""
        return state

    def _sums(self, state: State, outcomes: Outcomes, rounds: list[int]) -> Tensor:
        """Σ_s γ^{n−s}[r x]ᵀ[r x], and the same with γ², for U rounds n: (B, 2, U, d + 1, d + 1)."""
        last, before = state  # `before` are the sums after round `last`
        check_size(outcomes.contexts, float(self.regularization))
        rows = torch.cat([outcomes.rewards[..., None], outcomes.contexts], 2)
        squares = rows[..., None] * rows[..., None, :]
        after = torch.tensor(rounds, device=rows.device)
        rates = rows.new_tensor([self.discount, self.discount**2])[:, None, None]
        ages = after[:, None] - outcomes.rounds
        weights = (rates ** ages.clamp(min=0)).where(ages >= 0, 0.0)  # (2, U, n)
        sums = (weights @ squares.flatten(2)[:, None]).unflatten(3, squares.shape[2:])
        return sums + (rates ** (after - last)[:, None])[..., None] * before[:, :, None]
