"""Ridge regression: with the paper's injected noise, by group, and with posterior draws."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import (
    Estimator,
    LinearModel,
    RewardModel,
    Rounds,
    check_size,
    inner_products,
)
from fairbandit.estimators.evidence import Evidence
from fairbandit.estimators.regressions import Regression, Regressions, factors
from fairbandit.estimators.ties import NOISY, PLAIN
from fairbandit.history import Outcomes, Problem
from fairbandit.registry import PAPER, NonNegative, Share, register
from fairbandit.streams import Purpose

Sums = Regression | Evidence
"""The state of ridge regression: with a fixed penalty, or with one that the rewards choose."""

AUTO = "auto"  # the regularization that the rewards choose


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

    def init(self, problem: Problem) -> Sums:
        """The sums before any outcome."""
        width = self._width(problem)
        gram = problem.zeros(problem.replicas, 1 + width, 1 + width)
        if self.regularization == AUTO:
            return Evidence(gram, problem.zeros(problem.replicas))
        return self._with_penalty(gram, width)

    def _models(
        self, problem: Problem, state: Sums, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        at = outcomes.counts(n_train)
        solved = state.after(self._rows(state, outcomes), at)
        theta = solved.theta
        if self.noise > 0 and n_train[-1] > 0:
            theta = theta + self._injected(problem, n_train)
        return self._model(problem, solved, n_train, theta)

    def _advance(self, state: Sums, outcomes: Outcomes) -> Sums:
        if isinstance(state, Regression):
            check_size(outcomes.contexts, float(self.regularization))
        return state.with_rows(self._rows(state, outcomes))

    def grow(self, state: Sums, problem: Problem) -> Sums:
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

    def _rows(self, state: Sums, outcomes: Outcomes) -> Tensor:
        if not len(outcomes.rounds):
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


class Shared(Enum):
    """The parameters that the groups' reward models share."""

    slopes = "θ; each group has its own offset"
    nothing = "each group has its own θ"

    def expand(self, contexts: Tensor, groups: Tensor, width: int) -> Tensor:
        """The features z(x, g) of contexts (…, d), by which one θ holds the models of all groups.

        They are [x, e_g] for shared slopes, and else e_g ⊗ x, (…, width).
        """
        slopes, d = self is Shared.slopes, contexts.shape[-1]
        codes = torch.arange(width - d if slopes else width // d, device=groups.device)
        unit = (groups[..., None] == codes).to(contexts.dtype)
        if slopes:
            return torch.cat([contexts, unit], -1)
        return (unit[..., None] * contexts[..., None, :]).flatten(-2)


class GroupModel(RewardModel):
    """Rewards that are linear in each group: score(x, g) = ⟨θ, z(x, g)⟩.

    Args:
        shared: the parameters that the groups share, which define z.
        theta: (B, U, p).
    """

    def __init__(self, shared: Shared, theta: Tensor) -> None:
        super().__init__(theta)
        self._shared = shared

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return inner_products(self.parameters[0], self._features(contexts, groups))

    def _error(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        features = self._features(contexts, groups).abs()
        return inner_products(PLAIN * self.parameters[0].abs(), features)

    def _features(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return self._shared.expand(contexts, groups, self.parameters[0].shape[2])


@register("estimator", "group_ridge")
@dataclass(kw_only=True, eq=False)
class GroupRidge(Ridge):
    """Ridge regression with a reward model for each group, or an offset for each group.

    If groups share slopes, score(x, g) = ⟨θ, x⟩ + c_g; else score(x, g) = ⟨θ_g, x⟩. Both are
    ridge regression on z(x, g), which is [x, e_g] or e_g ⊗ x, with e_g the unit vector of group g:
    V = Σ_s z_s z_sᵀ + λI, b = Σ_s r_s z_s, (θ, c) = V⁻¹b. Offsets are penalised like θ, and a
    group without picks has offset 0 or θ_g = 0. No noise is injected.

    With `debiased`, an offset is taken for a bias of the group's rewards, and the score is ⟨θ, x⟩
    alone. A feature that names the group would take up a part of the offset.

    Args:
        shared: the parameters that the groups share, `slopes` or `nothing`.
        debiased: whether the offsets are left out of the scores, which takes shared slopes.
        regularization: λ > 0, or `auto`; see `Ridge`.

    Raises:
        FairbanditError: `debiased` without shared slopes.
    """

    reference = (
        "Hsiao, Analysis of Panel Data, 2014, ch. 3 (variable intercepts) and 6 (variable "
        "coefficients), with a ridge penalty; Schumann, Lang, Mattei and Dickerson, Group Fairness "
        "in Bandits with Biased Feedback, AAMAS 2022 (debiased)"
    )

    shared: Shared = Shared.slopes
    debiased: bool = False
    noise: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.debiased and self.shared is not Shared.slopes:
            raise FairbanditError(f"debiased takes shared=slopes, got shared={self.shared.name}")

    def _width(self, problem: Problem) -> int:
        d, groups = problem.features, problem.groups
        return d + groups if self.shared is Shared.slopes else d * groups

    def _regressors(self, width: int, outcomes: Outcomes) -> Tensor:
        return self.shared.expand(outcomes.contexts, outcomes.groups, width)

    def _model(
        self, problem: Problem, solved: Regressions, n_train: list[int], theta: Tensor
    ) -> RewardModel:
        if self.debiased:
            return LinearModel(theta[..., : problem.features])
        return GroupModel(self.shared, theta)


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
        self, problem: Problem, state: Sums, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        if not self.scale:
            return super()._models(problem, state, rounds, n_train, outcomes)
        first, last = rounds[0], rounds[-1]
        z = problem.streams[Purpose.ESTIMATOR].normal(first, last - first + 1, problem.features)
        if len(rounds) < z.shape[1]:
            z = z[:, [t - first for t in rounds]]
        at = outcomes.counts(n_train)
        rows = self._rows(state, outcomes)
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
