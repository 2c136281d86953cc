"""Reward models, which score contexts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from copy import copy
from typing import Self

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import PLAIN, Approximate


class NoBounds(FairbanditError):  # noqa: N818
    """A reward model or a rank without confidence bounds was asked for bounds."""


class RewardModel(ABC):
    """U distinct reward models for each of B replicas; rounds may share a model.

    A model consists of parameter tensors, (B, U, …) each, from which `take` selects models, and of
    settings that all U models share. A subclass writes `_score`, and reads the parameters from
    `self.parameters` there: attributes derived from the parameters would not be selected by `take`.

    Args:
        parameters: tensors of shape (B, U, …); none for a single model without parameters.

    >>> class Norm(RewardModel):
    ...     def _score(self, contexts, groups):
    ...         return contexts.norm(dim=-1)
    >>> Norm().score(torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[0]]]))
    tensor([[[5.]]])
    """

    def __init__(self, *parameters: Tensor) -> None:
        self.parameters = parameters

    def __len__(self) -> int:
        """U, the number of distinct models."""
        return self.parameters[0].shape[1] if self.parameters else 1

    @property
    def theta(self) -> Tensor | None:
        """θ of a linear model, (B, U, d); None if the model is not linear."""
        return None

    def take(self, index: Tensor) -> Self:
        """The models at the given positions, (N,) int64: one model for each round."""
        taken = copy(self)
        taken.parameters = tuple(p.index_select(1, index) for p in self.parameters)
        return taken

    def score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """Scores contexts.

        Args:
            contexts: (B, U, M, d), contexts of each model; or (B, 1, M, d), contexts of all models.
            groups: the contexts' groups, (B, U, M) or (B, 1, M) int64, −1 at empty places.

        Returns:
            Scores, (B, U, M).
        """
        return self._score(contexts, groups)

    def approximate(self, contexts: Tensor, groups: Tensor) -> Approximate:
        """Scores contexts, and bounds the rounding error of each score; see `estimators.ties`.

        Args:
            contexts, groups: as for `score`.

        Returns:
            Scores and their slack, (B, U, M) each.
        """
        scores = self._score(contexts, groups)
        return Approximate(scores, self._error(contexts, groups, scores))

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds of the true rewards of contexts.

        Args:
            contexts, groups: as for `score`.

        Returns:
            The lower and the upper bounds, (B, U, M) each.

        Raises:
            NoBounds: the model lacks confidence bounds.
        """
        return self._bounds(contexts, groups)

    @abstractmethod
    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """The scores (B, U, M) of contexts (B, U or 1, M, d) of groups (B, U or 1, M)."""

    def _error(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        """The slack of scores; a model whose terms cancel overrides it."""
        return PLAIN * scores.abs()

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        raise NoBounds(
            f"{type(self).__name__} has no confidence bounds; the models of the estimators "
            "optimistic_ridge and oracle, for example, have them"
        )


class LinearModel(RewardModel):
    """Linear rewards: score(x) = ⟨θ, x⟩.

    Args:
        theta: (B, U, d).
        tolerance: τ, the relative rounding error of a score: `NOISY` or `PLAIN`.
    """

    def __init__(self, theta: Tensor, tolerance: float = PLAIN) -> None:
        super().__init__(theta)
        self._tolerance = tolerance

    @property
    def theta(self) -> Tensor | None:
        """θ, (B, U, d)."""
        return self.parameters[0]

    def approximate(self, contexts: Tensor, groups: Tensor) -> Approximate:
        """Scores ⟨θ, x⟩ with the slack τ·Σⱼ|xⱼθⱼ|; see `RewardModel.approximate`."""
        terms = contexts * self.parameters[0].unsqueeze(2)
        return Approximate(terms.sum(-1), self._tolerance * terms.abs_().sum(-1))

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return inner_products(self.parameters[0], contexts)


def inner_products(theta: Tensor, contexts: Tensor) -> Tensor:
    """⟨θ, x⟩, (B, U, M), of θ (B, U, d) and contexts (B, U or 1, M, d)."""
    if contexts.shape[1] == 1 and theta.shape[1] * contexts.shape[2] > 64:
        return torch.matmul(theta, contexts[:, 0].mT)
    return (contexts * theta.unsqueeze(2)).sum(-1)  # faster than many small matrix products


def all_finite(values: Tensor) -> bool:
    """Whether all values are finite; a finite sum, which is found faster, has finite terms."""
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())


def check_size(contexts: Tensor, regularization: float) -> None:
    """Raises if 16·eps·‖x‖² > λ for a context x: rounding would hide all other contexts."""
    largest = float(contexts.norm(dim=-1).max()) if contexts.numel() else 0.0
    if 16 * torch.finfo(torch.float64).eps * largest * largest > regularization:
        raise FairbanditError(
            f"rounding would hide all contexts but the largest, of norm {largest:.3g}; use "
            "contexts of a smaller scale or a larger regularization (λ)"
        )
