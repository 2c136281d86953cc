"""Reward models: what an estimator believes, and how it scores contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Self

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.maths.solves import Downdated
from fairbandit.maths.ties import upper_score


class RewardModel(ABC):
    """U distinct reward models for each of B replicas; rounds may share a model.

    A model is its parameter tensors, each (B, U, …), so that models can be picked by their number,
    and its settings, which all of them share. A subclass writes `_score`, and reads the parameters
    from `self.parameters` there: what is derived from them beforehand would not be picked along.

    Args:
        parameters: tensors of shape (B, U, …); none if one model without parameters is for all
            rounds.

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
        """θ of a linear model, (B, U, d); None where the model is not linear."""
        return None

    def take(self, index: Tensor) -> Self:
        """The models at the given positions, (N,) int64: one model a round."""
        taken = copy(self)
        taken.parameters = tuple(p.index_select(1, index) for p in self.parameters)
        return taken

    def of_features(self, features: Tensor) -> Self | None:
        """The same models for contexts that are 0 beside some features, and lack the others.

        It makes counting past bounds faster where groups leave out features. None where a subclass
        does not override it.

        Args:
            features: the features that are left, (w,) int64.
        """
        return None

    def score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """Scores contexts.

        Args:
            contexts: (B, U, M, d), each model's own; or (B, 1, M, d), scored by every model.
            groups: the contexts' groups, (B, U, M) or (B, 1, M) int64, −1 an empty place.

        Returns:
            Scores, (B, U, M).
        """
        return self._score(contexts, groups)

    def upper_score(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        """The largest values that tie with the scores of these contexts; see `maths.ties`.

        Args:
            contexts, groups: as for `score`.
            scores: what `score` gave for them.

        Returns:
            (B, U, M).
        """
        return upper_score(scores, self._magnitude(contexts, groups, scores))

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds of the true rewards of contexts.

        Args:
            contexts, groups: as for `score`.

        Returns:
            The lower and the upper bounds, (B, U, M) each.

        Raises:
            FairbanditError: the model has no confidence bounds.
        """
        raise FairbanditError(
            f"{type(self).__name__} has no confidence bounds; estimators whose models have them: "
            f"{', '.join(registry.with_bounds('estimator'))}"
        )

    @abstractmethod
    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """Scores of (B, U or 1, M, d) contexts of (B, U or 1, M) groups: (B, U, M)."""

    def _magnitude(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        """Sum of the absolute values of the terms that make each score: (B, U, M).

        It is the size of the score here; a model whose terms cancel overrides it.
        """
        return scores.abs()


class LinearModel(RewardModel):
    """Linear rewards: score(x) = ⟨θ, x⟩.

    Args:
        theta: (B, U, d).
    """

    @property
    def theta(self) -> Tensor:
        """θ, (B, U, d)."""
        return self.parameters[0]

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return _products(self.theta, contexts)

    def _magnitude(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        return _magnitudes(self.theta, contexts)


class Unlearned(LinearModel):
    """The model of a policy that has learned from no reward: θ = 0, and every reward may be true.

    Args:
        theta: zeros, (B, U, d).
    """

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """−∞ and ∞; see `RewardModel`."""
        scores = self.score(contexts, groups)
        return scores - torch.inf, scores + torch.inf


class _Certain(RewardModel):
    """A model whose scores are the true rewards, so that they are their own bounds."""

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, twice; see `RewardModel`."""
        scores = self.score(contexts, groups)
        return scores, scores


class TrueLinearModel(_Certain, LinearModel):
    """The true rewards where they are linear.

    Args:
        theta: μ*, (B, 1, d).
    """


class TrueModel(_Certain):
    """The true rewards where they are not linear.

    Args:
        truth: the ground truth.
    """

    def __init__(self, truth: Truth) -> None:
        super().__init__()
        self.truth = truth

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return self.truth.score(contexts, groups)


class OptimisticModel(RewardModel):
    """Linear rewards with a confidence bonus: score(x) = ⟨θ, x⟩ + β·‖x‖_{V⁻¹}.

    Args:
        theta: (B, U, d).
        width: β, (B, U).
        downdated: V⁻¹ of the U models.
    """

    def __init__(self, theta: Tensor, width: Tensor, downdated: Downdated) -> None:
        super().__init__(theta, width, downdated.counts.expand(len(theta), -1))
        self._inverse, self._steps = downdated.inverse, downdated.steps

    def of_features(self, features: Tensor) -> Self:
        """θ and V⁻¹ at these features; see `RewardModel`."""
        some, (theta, *others) = copy(self), self.parameters
        some.parameters = theta.index_select(2, features), *others
        some._inverse = self._inverse.index_select(1, features).index_select(2, features)
        some._steps = self._steps.index_select(2, features)
        return some

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return _products(self.parameters[0], contexts) + self._bonus(contexts)

    def _magnitude(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        theta = self.parameters[0]
        return _magnitudes(theta, contexts) + (scores - _products(theta, contexts))

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """⟨θ, x⟩ − β·‖x‖_{V⁻¹} and ⟨θ, x⟩ + β·‖x‖_{V⁻¹}; see `RewardModel`."""
        middle, bonus = _products(self.parameters[0], contexts), self._bonus(contexts)
        return middle - bonus, middle + bonus

    def _bonus(self, contexts: Tensor) -> Tensor:
        return self.parameters[1][..., None] * self._norm(contexts)

    def _norm(self, contexts: Tensor) -> Tensor:
        """‖x‖_{V⁻¹} = √(xᵀPx − Σⱼ⟨wⱼ, x⟩²), (B, U, M), without a matrix for each model."""
        rows, steps = contexts.flatten(1, 2), self._steps
        columns = rows.transpose(1, 2)  # sums over few features are slow along the last dimension
        squares = (self._inverse @ columns).mul_(columns).sum(1).view(contexts.shape[:3])
        if n := steps.shape[1]:
            along = (rows @ steps.transpose(1, 2)).square_().view(*contexts.shape[:3], n)
            counts = self.parameters[2][:1, :, None]  # the same for all replicas
            included = (torch.arange(n, device=counts.device) < counts).to(along.dtype)
            if contexts.shape[1] == 1:
                squares = squares - included @ along[:, 0].transpose(1, 2)
            else:
                squares = squares - along.mul_(included[:, :, None]).sum(-1)
        return squares.clamp_(min=0).sqrt_().expand(-1, self.parameters[1].shape[1], -1)


class FactoredOptimisticModel(OptimisticModel):
    """The same from a factor of V⁻¹, which keeps digits that V⁻¹ loses where V is ill-conditioned.

    Args:
        theta: (B, U, d).
        width: β, (B, U).
        factor: F with FFᵀ = V⁻¹, (B, U, d, d).
    """

    def __init__(self, theta: Tensor, width: Tensor, factor: Tensor) -> None:
        RewardModel.__init__(self, theta, width, factor)

    def of_features(self, features: Tensor) -> Self:
        """θ and the rows of F at these features; see `RewardModel`."""
        some, (theta, width, factor) = copy(self), self.parameters
        some.parameters = theta.index_select(2, features), width, factor.index_select(2, features)
        return some

    def _norm(self, contexts: Tensor) -> Tensor:
        return (contexts @ self.parameters[2]).square().sum(-1).sqrt()


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
