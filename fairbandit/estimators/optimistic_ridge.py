"""Ridge regression with the confidence bonus of OFUL, also for rewards that drift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import torch
from torch import Tensor

from fairbandit.estimators.base import (
    LinearModel,
    RewardModel,
    Rounds,
    check_size,
    inner_products,
)
from fairbandit.estimators.regressions import Regressions, cholesky
from fairbandit.estimators.ridge import Ridge
from fairbandit.estimators.ties import NOISY, PLAIN, Approximate
from fairbandit.history import Outcomes, Problem, State
from fairbandit.registry import InnerShare, NonNegative, Share, register
from fairbandit.registry.signatures import Range


class OptimisticModel(LinearModel):
    """Linear rewards with a confidence bonus: score(x) = ⟨θ, x⟩ + β·‖x‖_{V⁻¹}.

    Args:
        theta: (B, U, d).
        width: β, (B, U).
        solved: the regressions, which hold V⁻¹ of the U models.
        tolerance: as for `LinearModel`.
    """

    def __init__(
        self, theta: Tensor, width: Tensor, solved: Regressions, tolerance: float = PLAIN
    ) -> None:
        super().__init__(theta, tolerance)
        number = torch.arange(theta.shape[1], device=theta.device)  # index of the regression
        self.parameters += (number.expand(theta.shape[:2]), width)
        self._solved = solved

    @property
    def theta(self) -> None:
        """None: rewards are not linear."""
        return None

    def approximate(self, contexts: Tensor, groups: Tensor) -> Approximate:
        """Scores with the slack of ⟨θ, x⟩ plus 1e-9 of the bonus."""
        linear, bonus = super().approximate(contexts, groups), self._bonus(contexts)
        return Approximate(linear.value + bonus, linear.slack + PLAIN * bonus)

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return inner_products(self.parameters[0], contexts) + self._bonus(contexts)

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        middle, bonus = inner_products(self.parameters[0], contexts), self._bonus(contexts)
        return middle - bonus, middle + bonus

    def _bonus(self, contexts: Tensor) -> Tensor:
        """β·‖x‖_{V⁻¹} = β·√(‖xF‖² − Σⱼ⟨wⱼ, x⟩²), (B, U, M)."""
        _, number, width = self.parameters
        root, w = self._solved.root, self._solved.w
        if root.shape[1] > 1:
            squares = (contexts @ root.index_select(1, number[0])).square_().sum(-1)
        else:
            along = (contexts.flatten(1, 2) @ root[:, 0]).square_()
            squares = along.sum(-1).view(contexts.shape[:3])
        if w is not None:
            n = w.shape[1]
            along = (contexts.flatten(1, 2) @ w.mT).square_()
            along = along.view(*contexts.shape[:3], n)
            counts = torch.tensor(self._solved.at, device=number.device)[number[0], None]
            weights = (torch.arange(n, device=number.device) < counts).to(along.dtype)
            if contexts.shape[1] == 1:
                squares = squares - weights @ along[:, 0].mT
            else:
                squares = squares - along.mul_(weights[:, None]).sum(-1)
        return width[..., None] * squares.clamp(min=0).sqrt()


class Radius(Enum):
    """The radius of the confidence set of `OptimisticRidge`."""

    practical = "as in the paper's experiments"
    constant = "1, as in LinUCB: Li et al. 2010"
    textbook = "Abbasi-Yadkori et al. 2011, Theorem 2"


@register("estimator", "optimistic_ridge")
@dataclass(kw_only=True, eq=False)
class OptimisticRidge(Ridge):
    """Ridge regression plus OFUL's confidence bonus.

    score(x) = ⟨θ_n, x⟩ + c·β_n·‖x‖_{V_n⁻¹}, with θ_n and V_n as in `Ridge`. The practical radius
    is used in the paper's experiments: β_n = √(2 ln(det V_n / det λI))·√(ln(n + 1)), where n + 1 is
    the round under split `full`. The textbook radius is
    β_n = R√(2 ln(√det V_n / (√det λI · δ))) + √λ·S. The constant radius is 1, which gives LinUCB
    with α = c.

    Args:
        exploration: c ≥ 0; None takes the environment's exploration.
        regularization: λ > 0, or `auto`; see `Ridge`.
        noise: ρ in [0, 1]; 0 is plain ridge.
        radius: `practical`, `textbook` or `constant`.
        subgaussian: R, the noise's subgaussian constant (textbook).
        norm: S, a bound on ‖θ‖ (textbook).
        delta: δ, the probability of leaving the confidence set (textbook).
    """

    reference = (
        "Abbasi-Yadkori, Pal, Szepesvari, Improved Algorithms for Linear Stochastic Bandits, "
        "NeurIPS 2011"
    )

    exploration: NonNegative | None = None
    noise: Share = 0.0
    radius: Radius = Radius.practical
    subgaussian: NonNegative = 1.0
    norm: NonNegative = 1.0
    delta: InnerShare = 0.05

    def _model(
        self, problem: Problem, solved: Regressions, n_train: list[int], theta: Tensor
    ) -> RewardModel:
        width = self._radius(problem, solved.log_det, n_train, solved.penalty)
        return OptimisticModel(theta, width, solved, NOISY if self.noise else PLAIN)

    def _radius(
        self, problem: Problem, log_det: Tensor, n_train: list[int], penalty: Tensor | None = None
    ) -> Tensor:
        """c·β after each n, (B, U); `penalty` is each model's λ, (B, U); None if λ is fixed."""
        root: Tensor | float  # √λ
        if penalty is None:
            log, root = math.log(fixed := float(self.regularization)), math.sqrt(fixed)
            growth = log_det - problem.features * log
        else:
            growth, root = log_det - problem.features * penalty.log(), penalty.sqrt()
        growth = growth.clamp(min=0)
        if self.radius is Radius.constant:
            beta = torch.ones_like(growth)
        elif self.radius is Radius.practical:
            log_rounds = log_det.new_tensor([math.log(n + 1) for n in n_train])
            beta = (2 * growth * log_rounds).sqrt()
        else:
            spread = (growth - 2 * math.log(self.delta)).sqrt()
            beta = self.subgaussian * spread + root * self.norm
        return beta * self._scale(problem)

    def _scale(self, problem: Problem) -> float:
        return problem.exploration if self.exploration is None else self.exploration


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
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
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
