"""Least squares on normal scores of rewards; only the order within each group matters."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import Estimator
from fairbandit.estimators.models import LinearModel, RewardModel
from fairbandit.estimators.orders import normal_scores
from fairbandit.estimators.pieces import pieces
from fairbandit.history import Outcomes, State
from fairbandit.history.problem import Problem
from fairbandit.registry import register


class OrderEstimator(Estimator):
    """Base class of estimators that read only the order of rewards within each group.

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
    """Ridge regression on normal scores, for rewards under an unknown increasing function.

    If the rewards of group g are Y = h_g(⟨θ, x⟩ + ε) with h_g increasing and unknown, Y and
    ⟨θ, x⟩ + ε have the same ranks. A reward with the mid-rank R_i among n_g rewards of its group
    becomes z_i = Φ⁻¹((R_i − ½)/n_g). Its context becomes w_i = (x_i − x̄_g)/s_g, where s_g² is the
    mean of ‖x_i − x̄_g‖², and θ = (Σ w_i w_iᵀ + λI)⁻¹ Σ w_i z_i. A common scale s_g of all features
    keeps the direction of θ. Scores are comparable only within a group. A policy should set
    `refresh`, since all outcomes are fitted anew.

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
        member = one_hot(groups + 1, problem.groups + 1)[..., 1:].to(x.dtype)  # (B, n, G)
        penalty = self.regularization * torch.eye(d, dtype=x.dtype, device=x.device)
        parts = list[tuple[Tensor, Tensor]]()
        for piece in pieces(len(at), x.numel()):
            n = torch.tensor(at[piece], device=x.device)
            trains = torch.arange(at[-1], device=x.device) < n[:, None]  # (U, n)
            members = (member[:, None] * trains[..., None]).mT  # (B, U, G, n)
            count = members.sum(3, keepdim=True).clamp(min=1)
            means = members @ x[:, None] / count
            w = x[:, None] - member[:, None] @ means
            squares = members @ w.square().sum(3, keepdim=True) / count
            scale = member[:, None] @ squares.rsqrt().where(squares > 0, 0.0)
            w = w * scale * trains[..., None]
            z = normal_scores(groups, rewards, trains)
            parts.append((w.mT @ w + penalty, w.mT @ z[..., None]))
        equations, sums = (torch.cat(terms, 1) for terms in zip(*parts, strict=True))
        theta = torch.cholesky_solve(sums, torch.linalg.cholesky(equations))[..., 0]
        return LinearModel(theta)
