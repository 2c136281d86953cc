"""Ridge regression that tells groups apart."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import torch
from torch import Tensor

from fairbandit.parts.base import Problem
from fairbandit.parts.history import Outcomes
from fairbandit.parts.model import LinearModel, RewardModel
from fairbandit.parts.ridge import Ridge
from fairbandit.registry import register


class Shared(Enum):
    """What the groups' reward models have in common."""

    slopes = "θ; each group has an offset of its own"
    nothing = "each group has a θ of its own"

    def width(self, features: int, groups: int) -> int:
        """How many features z(x, g) has."""
        return features + groups if self is Shared.slopes else features * groups

    def expand(self, contexts: Tensor, groups: Tensor, count: int) -> Tensor:
        """z(x, g), such that every group's model is ⟨θ, z(x, g)⟩ with one θ.

        Args:
            contexts: x, (…, d).
            groups: g, (…) int64; −1 has no part in any group.
            count: G.

        Returns:
            [x, e_g] for shared slopes, (…, d + G), and else e_g ⊗ x, (…, d·G).
        """
        every = torch.arange(count, device=groups.device)
        own = (groups[..., None] == every).to(contexts.dtype)
        if self is Shared.slopes:
            return torch.cat([contexts, own], -1)
        return (own[..., None] * contexts[..., None, :]).flatten(-2)


class GroupModel(RewardModel):
    """Rewards that are linear in each group: score(x, g) = ⟨θ, z(x, g)⟩.

    Args:
        theta: (B, U, p).
        shared: what the groups share; it gives z.
        groups: G.
    """

    def __init__(self, theta: Tensor, shared: Shared, groups: int) -> None:
        super().__init__(theta)
        self._shared, self._groups = shared, groups

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return LinearModel(*self.parameters)._score(self._expanded(contexts, groups), groups)

    def _magnitude(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        expanded = self._expanded(contexts, groups)
        return LinearModel(*self.parameters)._magnitude(expanded, groups, scores)

    def _expanded(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return self._shared.expand(contexts, groups, self._groups)


@register("estimator", "group_ridge")
class GroupRidge(Ridge):
    """Ridge regression with a reward model for each group, or an offset for each group.

    Where groups share slopes, score(x, g) = ⟨θ, x⟩ + c_g; else score(x, g) = ⟨θ_g, x⟩. Both are
    ridge regression on z(x, g), which is [x, e_g] or e_g ⊗ x, with e_g the unit vector of group g:
    V = Σ_s z_s z_sᵀ + λI, b = Σ_s r_s z_s, (θ, c) = V⁻¹b. So offsets are penalised like θ, and a
    group without picks has offset 0 or θ_g = 0. No noise is injected.

    Args:
        shared: what the groups share: `slopes` or `nothing`.
        regularization: λ > 0.

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    reference = (
        "Hsiao, Analysis of Panel Data, 2014, ch. 3 (variable intercepts) and 6 (variable "
        "coefficients), with a ridge penalty"
    )
    draws = False

    def __init__(self, *, shared: Shared = Shared.slopes, regularization: float = 0.1) -> None:
        super().__init__(regularization=regularization, noise=0.0)
        self.shared = shared

    def bind(self, problem: Problem) -> None:
        """Starts from V = λI and b = 0."""
        super().bind(self._expanded_problem(problem))

    def grow(self, problem: Problem) -> None:
        """Goes on in a problem with more groups, whose coefficients are 0."""
        before = self.problem.features
        super().grow(self._expanded_problem(problem))
        self._widen(self.problem.features - before)

    def _expanded_problem(self, problem: Problem) -> Problem:
        """The same problem with the features of z(x, g)."""
        return replace(problem, features=self.shared.width(problem.features, problem.groups))

    def _regressors(self, outcomes: Outcomes) -> Tensor:
        return self.shared.expand(outcomes.contexts, outcomes.groups, self.problem.groups)

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        return GroupModel(self._solve(n_train, outcomes)[0], self.shared, self.problem.groups)
