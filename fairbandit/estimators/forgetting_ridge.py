"""Ridge regression that forgets: rewards count less with each round, with D-LinUCB's bonus."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.optimistic_ridge import OptimisticModel, OptimisticRidge
from fairbandit.maths.regressions import Regressions, cholesky
from fairbandit.models import LinearModel, RewardModel, check_size
from fairbandit.part import Problem
from fairbandit.past import Outcomes, State
from fairbandit.registry import register


@register("estimator", "forgetting_ridge")
class ForgettingRidge(OptimisticRidge):
    """Discounted least squares with the bonus of D-LinUCB, for rewards that drift.

    After n training rounds a pick of round s has the weight γ^{n−s}, however late its reward came;
    the penalty is not discounted. W is the diagonal matrix of the weights. With V_n = XᵀWX + λI,
    Ṽ_n = XᵀW²X + λI and
    θ_n = V_n⁻¹XᵀWr, score(x) = ⟨θ_n, x⟩ + c·β_n·‖x‖ in the norm of V_n⁻¹ Ṽ_n V_n⁻¹, with β_n the
    practical radius of `OptimisticRidge`, of det Ṽ_n; what a drift adds is not part of it. With
    γ = 1 this is `optimistic_ridge` without noise. With c = 0 scores are linear, without bounds.

    Args:
        discount: γ, above 0 and at most 1: a reward that is 1/(1 − γ) rounds old counts about 1/e.
        exploration: c ≥ 0; None takes the environment's own.
        regularization: λ > 0.

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    reference = "Russac et al., Weighted Linear Bandits for Non-Stationary Environments, 2019"

    def __init__(
        self,
        *,
        discount: float = 0.98,
        exploration: float | None = None,
        regularization: float = 0.1,
    ) -> None:
        super().__init__(exploration=exploration, regularization=regularization)
        if not 0 < discount <= 1:
            raise FairbanditError(f"discount (γ) must be above 0 and at most 1, got {discount}")
        self.discount = discount

    def _init(self, problem: Problem) -> State:
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
        both = self._sums(state, outcomes, n_train)
        both.diagonal(dim1=3, dim2=4)[..., 1:] += self.regularization
        found = Regressions.of(both[:, 0])
        if not self._scale(problem):
            return LinearModel(found.theta)
        lower = cholesky(both[:, 1])
        width = self._radius(problem, 2 * lower.diagonal(dim1=2, dim2=3).log().sum(2), n_train)
        spread = replace(found, root=found.root @ (found.root.mT @ lower))  # V⁻¹L with LLᵀ = Ṽ
        return OptimisticModel(found.theta, width, spread)

    def _advance(self, state: State, outcomes: Outcomes) -> State:
        last = max(state[0], int(outcomes.rounds[-1]))
        return last, self._sums(state, outcomes, [last])[:, :, 0]

    def _grow(self, state: State, problem: Problem) -> State:
        return state

    def _sums(self, state: State, outcomes: Outcomes, rounds: list[int]) -> Tensor:
        """Σ_s γ^{n−s}[r x]ᵀ[r x], and with γ², for each n of U rounds: (B, 2, U, d + 1, d + 1)."""
        last, before = state  # the sums with n = last
        check_size(outcomes.contexts, self.regularization)
        rows = torch.cat([outcomes.rewards[..., None], outcomes.contexts], 2)
        squares = rows[..., None] * rows[..., None, :]
        after = torch.tensor(rounds, device=rows.device)
        rates = rows.new_tensor([self.discount, self.discount**2])[:, None, None]
        ages = after[:, None] - outcomes.rounds
        weights = (rates ** ages.clamp(min=0)).where(ages >= 0, 0.0)  # (2, U, n)
        sums = (weights @ squares.flatten(2)[:, None]).unflatten(3, squares.shape[2:])
        return sums + (rates ** (after - last)[:, None])[..., None] * before[:, :, None]
