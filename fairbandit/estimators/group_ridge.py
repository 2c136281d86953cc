"""Ridge regression with parameters for each group."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor

from fairbandit.estimators.base import RewardModel, inner_products
from fairbandit.estimators.regressions import Regressions
from fairbandit.estimators.ridge import Ridge
from fairbandit.estimators.ties import PLAIN
from fairbandit.history.outcomes import Outcomes
from fairbandit.history.problem import Problem
from fairbandit.registry import register


class Shared(Enum):
    """The parameters that the groups' reward models share."""

    slopes = "θ; each group has its own offset"
    nothing = "each group has its own θ"

    def expand(self, contexts: Tensor, groups: Tensor, width: int) -> Tensor:
        """The features z(x, g), by which one θ holds the models ⟨θ, z(x, g)⟩ of all groups.

        Args:
            contexts: x, (…, d).
            groups: g, (…) int64; −1 for no group.
            width: the number of features of z: d + G for shared slopes, and else d·G.

        Returns:
            [x, e_g] for shared slopes, and else e_g ⊗ x, (…, width).
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

    Args:
        shared: the parameters that the groups share, `slopes` or `nothing`.
        regularization: λ > 0, or `auto`; see `Ridge`.
    """

    reference = (
        "Hsiao, Analysis of Panel Data, 2014, ch. 3 (variable intercepts) and 6 (variable "
        "coefficients), with a ridge penalty"
    )

    shared: Shared = Shared.slopes
    noise: float = field(default=0.0, init=False)

    def _width(self, problem: Problem) -> int:
        d, groups = problem.features, problem.groups
        return d + groups if self.shared is Shared.slopes else d * groups

    def _regressors(self, width: int, outcomes: Outcomes) -> Tensor:
        return self.shared.expand(outcomes.contexts, outcomes.groups, width)

    def _model(
        self, problem: Problem, solved: Regressions, n_train: list[int], theta: Tensor
    ) -> RewardModel:
        return GroupModel(self.shared, theta)
