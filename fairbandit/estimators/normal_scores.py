"""Least squares on the normal scores of rewards, which reads only their order in each group."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import Estimator
from fairbandit.maths.orders import normal_scores, pieces
from fairbandit.models import LinearModel, RewardModel
from fairbandit.part import Problem
from fairbandit.past import Outcomes, State
from fairbandit.registry import register


class OrderEstimator(Estimator):
    """What estimators have in common that read the order of rewards within each group.

    Args:
        regularization: λ > 0.

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    needs = frozenset({"rewards"})

    def __init__(self, *, regularization: float = 1.0) -> None:
        if not 0 < regularization < math.inf:
            raise FairbanditError(
                f"regularization (λ) must be above 0 and finite, got {regularization}"
            )
        self.regularization = regularization


@register("estimator", "normal_scores")
class NormalScores(OrderEstimator):
    """Ridge regression on normal scores: for rewards seen through an unknown increasing function.

    If group g's rewards are Y = h_g(⟨θ, x⟩ + ε), with h_g increasing and unknown, their ranks are
    those of ⟨θ, x⟩ + ε. Reward i of n_g of its group, with the mid-rank R_i, becomes
    z_i = Φ⁻¹((R_i − ½)/n_g), its context w_i = (x_i − x̄_g)/s_g with s_g² the mean of ‖x_i − x̄_g‖²,
    and θ = (Σ w_i w_iᵀ + λI)⁻¹ Σ w_i z_i. One number s_g a group keeps the direction of θ, which
    scaling feature by feature would not. Scores compare candidates of one group, and only with each
    other. A policy should set `refresh`, since all outcomes are fitted anew.

    Args:
        regularization: λ > 0.

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    reference = "van der Waerden, Order tests for the two-sample problem and their power, 1952"

    def _models(
        self,
        problem: Problem,
        state: State,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        at, d = outcomes.counts(n_train), problem.features
        _, x, groups, rewards = outcomes.rows(0, at[-1])
        own = one_hot(groups + 1, problem.groups + 1)[..., 1:].to(x.dtype)  # (B, n, G)
        penalty = self.regularization * torch.eye(d, dtype=x.dtype, device=x.device)
        found = list[tuple[Tensor, Tensor]]()
        for some in pieces(len(at), x.numel()):
            n = torch.tensor(at[some], device=x.device)
            trains = torch.arange(at[-1], device=x.device) < n[:, None]  # (U, n)
            members = (own[:, None] * trains[..., None]).mT  # (B, U, G, n)
            count = members.sum(3, keepdim=True).clamp(min=1)
            means = members @ x[:, None] / count
            w = x[:, None] - own[:, None] @ means
            squares = members @ w.square().sum(3, keepdim=True) / count
            scale = own[:, None] @ squares.rsqrt().where(squares > 0, 0.0)
            w = w * scale * trains[..., None]
            z = normal_scores(groups, rewards, trains)
            found.append((w.mT @ w + penalty, w.mT @ z[..., None]))
        equations, sums = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        theta = torch.cholesky_solve(sums, torch.linalg.cholesky(equations))[..., 0]
        return LinearModel(theta)
