"""Ridge regression that forgets: rewards count less with each round, with D-LinUCB's bonus."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import State
from fairbandit.estimators.optimistic_ridge import OptimisticModel, OptimisticRidge, Radius
from fairbandit.maths.regressions import Regressions, cholesky
from fairbandit.models import LinearModel, RewardModel
from fairbandit.part import Problem
from fairbandit.past.outcomes import Outcomes
from fairbandit.registry import register


class Discounted(NamedTuple):
    """Sums of rows [r x] with weights that fall with each round.

    Attributes:
        round: the last round of a row, m.
        sums: Σ_s γ^{m−s}[r x]ᵀ[r x] and the same with γ², (B, 2, d + 1, d + 1).
    """

    round: int
    sums: Tensor


@register("estimator", "forgetting_ridge")
class ForgettingRidge(OptimisticRidge):
    """Discounted least squares with the confidence bonus of D-LinUCB, for rewards that drift.

    V_n = Σ_{s≤n} γ^{n−s} x_s x_sᵀ + λI, b_n = Σ_{s≤n} γ^{n−s} r_s x_s, θ_n = V_n⁻¹ b_n, and
    Ṽ_n = Σ_{s≤n} γ^{2(n−s)} x_s x_sᵀ + λI. A pick of round s has the weight γ^{n−s} after n
    training rounds, however late its reward came and whether or not other rounds had one; the
    penalty λ is not discounted. Then

        score(x) = ⟨θ_n, x⟩ + c·β_n·‖x‖_{V_n⁻¹ Ṽ_n V_n⁻¹},

    with β_n as in `OptimisticRidge`, but of det Ṽ_n. The textbook radius holds at each round with
    probability at least 1 − δ if θ does not change; how far a drift has moved θ_n is not part of
    it. With γ = 1 this is `optimistic_ridge` without noise. With c = 0 scores are linear, without
    bounds.

    Args:
        discount: γ, above 0 and at most 1: a reward that is 1/(1 − γ) rounds old counts about 1/e.
        exploration: c ≥ 0; None takes the environment's own.
        regularization: λ > 0.
        radius: `practical` or `textbook`.
        subgaussian: R, the noise's subgaussian constant (textbook).
        norm: S, a bound on ‖θ‖ (textbook).
        delta: δ, the probability of leaving the confidence set (textbook).

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    reference = (
        "Russac, Vernade, Cappé, Weighted Linear Bandits for Non-Stationary Environments, "
        "NeurIPS 2019"
    )

    def __init__(
        self,
        *,
        discount: float = 0.98,
        exploration: float | None = None,
        regularization: float = 0.1,
        radius: Radius = Radius.practical,
        subgaussian: float = 1.0,
        norm: float = 1.0,
        delta: float = 0.05,
    ) -> None:
        super().__init__(
            exploration=exploration,
            regularization=regularization,
            radius=radius,
            subgaussian=subgaussian,
            norm=norm,
            delta=delta,
        )
        if not 0 < discount <= 1:
            raise FairbanditError(f"discount (γ) must be above 0 and at most 1, got {discount}")
        self.discount = discount

    def _init(self, problem: Problem) -> State:
        width = problem.features + 1
        return Discounted(0, problem.zeros(problem.replicas, 2, width, width))

    def _models(
        self,
        problem: Problem,
        state: State,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        gram, squared = self._sums(state, outcomes, n_train).unbind(1)  # (B, U, d + 1, d + 1)
        for sums in (gram, squared):
            sums.diagonal(dim1=2, dim2=3)[..., 1:] += self.regularization
        found = Regressions.of(gram)
        if not self._scale(problem):
            return LinearModel(found.theta, found)
        lower = cholesky(squared)
        log_det = 2 * lower.diagonal(dim1=2, dim2=3).log().sum(2)
        width = self._radius(problem, log_det, n_train)
        spread = replace(found, root=found.root @ (found.root.mT @ lower))  # V⁻¹L with LLᵀ = Ṽ
        return OptimisticModel(found.theta, width, found, False, spread)

    def _advance(self, state: State, outcomes: Outcomes) -> State:
        last = max(state.round, int(outcomes.rounds[-1]))
        return Discounted(last, self._sums(state, outcomes, [last])[:, :, 0])

    def _grow(self, state: State, problem: Problem) -> State:
        return state

    def _sums(self, state: Discounted, outcomes: Outcomes, rounds: list[int]) -> Tensor:
        """The sums of a state and some outcomes after each of U rounds, (B, 2, U, d + 1, d + 1)."""
        rows = torch.cat([outcomes.rewards[..., None], outcomes.contexts], 2)
        squares = rows[..., None] * rows[..., None, :]
        after = torch.tensor(rounds, device=rows.device)
        rates = rows.new_tensor([self.discount, self.discount**2])[:, None]
        ages = after[:, None] - outcomes.rounds
        weights = (rates[..., None] ** ages.clamp(min=0)).where(ages >= 0, 0.0)  # (2, U, n)
        kept = rates ** (after - state.round)
        sums = (weights @ squares.flatten(2)[:, None]).unflatten(3, squares.shape[2:])
        return sums + kept[..., None, None] * state.sums[:, :, None]
