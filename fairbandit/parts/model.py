"""Reward models: what an estimator believes, and how it scores contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import Tensor

from fairbandit.maths.ties import ceiling


class RewardModel(ABC):
    """U distinct reward models for each of B replicas; rounds that share one share its scores.

    A model is its parameter tensors, each (B, U, …), so that models can be picked by index. A
    subclass writes `_score` and `_magnitude`.

    Args:
        parameters: tensors of shape (B, U, …).
    """

    def __init__(self, *parameters: Tensor) -> None:
        self.parameters = parameters

    def __len__(self) -> int:
        """U, the number of distinct models."""
        return self.parameters[0].shape[1]

    @property
    def theta(self) -> Tensor | None:
        """θ of a linear model, (B, U, d); None where the model is not linear."""
        return None

    def take(self, index: Tensor) -> Self:
        """The models at the given positions, (N,) int64: one model a round."""
        return type(self)(*(p.index_select(1, index) for p in self.parameters))

    def score(self, contexts: Tensor) -> Tensor:
        """Scores contexts.

        Args:
            contexts: (B, U, M, d), each model's own; or (B, 1, M, d), scored by every model.

        Returns:
            Scores, (B, U, M).
        """
        return self._score(contexts)

    def ceiling(self, contexts: Tensor, scores: Tensor) -> Tensor:
        """The largest values that tie with the scores of these contexts; see `maths.ties`."""
        return ceiling(scores, self._magnitude(contexts))

    @abstractmethod
    def _score(self, contexts: Tensor) -> Tensor:
        """Scores of (B, U or 1, M, d) contexts: (B, U, M)."""

    @abstractmethod
    def _magnitude(self, contexts: Tensor) -> Tensor:
        """Sum of the absolute values of the terms that make each score: (B, U, M)."""


class LinearModel(RewardModel):
    """Linear rewards: score(x) = ⟨θ, x⟩.

    Args:
        theta: (B, U, d).
    """

    @property
    def theta(self) -> Tensor:
        """θ, (B, U, d)."""
        return self.parameters[0]

    def _score(self, contexts: Tensor) -> Tensor:
        return _products(self.theta, contexts)

    def _magnitude(self, contexts: Tensor) -> Tensor:
        return _magnitudes(self.theta, contexts)


class OptimisticModel(RewardModel):
    """Linear rewards with a confidence bonus: score(x) = ⟨θ, x⟩ + w·‖x‖_{V⁻¹}.

    Args:
        theta: (B, U, d).
        inverse: V⁻¹, (B, U, d, d).
        width: w, (B, U).
    """

    def _score(self, contexts: Tensor) -> Tensor:
        return _products(self.parameters[0], contexts) + self._bonus(contexts)

    def _magnitude(self, contexts: Tensor) -> Tensor:
        return _magnitudes(self.parameters[0], contexts) + self._bonus(contexts)

    def _bonus(self, contexts: Tensor) -> Tensor:
        return self.parameters[2][..., None] * self._norm(contexts)

    def _norm(self, contexts: Tensor) -> Tensor:
        """‖x‖_{V⁻¹}, (B, U, M)."""
        return ((contexts @ self.parameters[1]) * contexts).sum(-1).clamp(min=0).sqrt()


class RootedOptimisticModel(OptimisticModel):
    """The same from a factor of V⁻¹, which keeps digits that V⁻¹ loses where V is ill-conditioned.

    Args:
        theta: (B, U, d).
        factor: F with FFᵀ = V⁻¹, (B, U, d, d).
        width: w, (B, U).
    """

    def _norm(self, contexts: Tensor) -> Tensor:
        return (contexts @ self.parameters[1]).square().sum(-1).sqrt()


def _products(theta: Tensor, contexts: Tensor) -> Tensor:
    """⟨θ, x⟩ of (B, U, d) and (B, U or 1, M, d): (B, U, M)."""
    if _shared(theta, contexts):
        return torch.matmul(theta, contexts[:, 0].transpose(-1, -2))
    return (contexts * theta.unsqueeze(2)).sum(-1)  # many small products are slow as matrices


def _magnitudes(theta: Tensor, contexts: Tensor) -> Tensor:
    """Σᵢ|θᵢxᵢ|, likewise."""
    if _shared(theta, contexts):
        return _products(theta.abs(), contexts.abs())
    return (contexts * theta.unsqueeze(2)).abs_().sum(-1)


def _shared(theta: Tensor, contexts: Tensor) -> bool:
    """Whether all models score the same contexts, and so many that a matrix product pays."""
    return contexts.shape[1] == 1 and theta.shape[1] * contexts.shape[2] > 64
