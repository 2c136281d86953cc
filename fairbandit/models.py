"""Reward models: what an estimator believes, and how it scores contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.regressions import Regressions

EPS = torch.finfo(torch.float64).eps

ROUNDING = 4 * EPS
"""How far rounding moves a product of given numbers, relative to the sum of its absolute terms."""

SOLVED = 64 * EPS
"""How far rounding moves a prediction of ridge regression, relative to the largest possible one
times the root of the condition number of V."""


class NoBounds(FairbanditError):  # noqa: N818
    """Confidence bounds were asked of a reward model or a rank that has none."""


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

    @property
    def is_off(self) -> bool:
        """Whether rounding has moved the parameters themselves, and not only what they give."""
        return False

    def take(self, index: Tensor) -> Self:
        """The models at the given positions, (N,) int64: one model a round."""
        taken = copy(self)
        taken.parameters = tuple(p.index_select(1, index) for p in self.parameters)
        return taken

    def score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """Scores contexts.

        Args:
            contexts: (B, U, M, d), each model's own; or (B, 1, M, d), scored by every model.
            groups: the contexts' groups, (B, U, M) or (B, 1, M) int64, −1 an empty place.

        Returns:
            Scores, (B, U, M).
        """
        return self._score(contexts, groups)

    def error(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        """How far rounding may have moved each score; two scores tie within the sum of theirs.

        Args:
            contexts, groups: as for `score`.
            scores: what `score` gave for them.

        Returns:
            (B, U, M), at least 0.
        """
        return self._error(contexts, groups, scores)

    def error_limit(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> float:
        """No error of these scores exceeds this; it may be cheaper to compute, and much larger."""
        return float(self.error(contexts, groups, scores).max())

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds of the true rewards of contexts.

        Args:
            contexts, groups: as for `score`.

        Returns:
            The lower and the upper bounds, (B, U, M) each.

        Raises:
            NoBounds: the model has no confidence bounds.
        """
        return self._bounds(contexts, groups)

    @abstractmethod
    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """Scores of (B, U or 1, M, d) contexts of (B, U or 1, M) groups: (B, U, M)."""

    def _error(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        """See `error`; a model whose terms cancel, or that is itself off, overrides it."""
        return ROUNDING * scores.abs()

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        raise NoBounds(
            f"{type(self).__name__} has no confidence bounds; the models of the estimators "
            "optimistic_ridge and oracle, for example, have them"
        )


class LinearModel(RewardModel):
    """Linear rewards: score(x) = ⟨θ, x⟩.

    Args:
        theta: (B, U, d).
        found: the regressions that gave θ, so that rounding has moved it; None where θ is given or
            drawn.
    """

    def __init__(self, theta: Tensor, found: Regressions | None = None) -> None:
        super().__init__(theta)
        self._found = found
        if found is not None:  # which of the regressions each model is of
            number = torch.arange(theta.shape[1], device=theta.device)
            self.parameters += (number.expand(theta.shape[:2]),)

    @property
    def theta(self) -> Tensor | None:
        """θ, (B, U, d)."""
        return self.parameters[0]

    @property
    def is_off(self) -> bool:
        """Whether rounding has moved θ; see `RewardModel`."""
        return self._found is not None

    def error_limit(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> float:
        """See `RewardModel`; the limit is the product of the largest values of all factors."""
        if self._found is None:
            return super().error_limit(contexts, groups, scores)
        size, condition, reward_norm = self._found.largest
        size *= float(torch.linalg.vector_norm(self._features(contexts, groups)))
        others = (float(p.max()) for p in self.parameters[2:])
        return size * self._slack(condition, reward_norm, *others)

    def _features(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """What θ multiplies, as a function of contexts and groups."""
        return contexts

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return products(self.parameters[0], self._features(contexts, groups))

    def _error(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        features = self._features(contexts, groups)
        if self._found is not None:  # by Cauchy and Schwarz, |⟨θ, x⟩| ≤ ‖r‖·‖x‖_{V⁻¹}
            condition, reward_norm = self._found.condition, self._found.reward_norm
            if len(self._found.at) > 1:
                number = self.parameters[1][0]
                condition, reward_norm = condition[:, number], reward_norm[:, number]
            slack = self._slack(condition, reward_norm, *self.parameters[2:])
            return slack[..., None] * self._squares(self._found, features).sqrt_()
        theta = self.parameters[0]
        return products(max(ROUNDING, theta.shape[2] * EPS) * theta.abs(), features.abs())

    def _slack(self, condition: Any, reward_norm: Any, *others: Any) -> Any:
        """How far rounding may have moved scores where ‖xF‖ is 1.

        The arguments are those of each model, (B, U), or the largest of all, numbers; the others
        are the model's further parameters.
        """
        return SOLVED * condition**0.5 * reward_norm

    def _squares(self, found: Regressions, features: Tensor) -> Tensor:
        """‖xF‖², (B, U or 1, M), which is no less than that of ‖x‖_{V⁻¹}."""
        root = found.root
        if root.shape[1] > 1:
            return (features @ root.index_select(1, self.parameters[1][0])).square_().sum(-1)
        along = (features.flatten(1, 2) @ root[:, 0]).square_()
        return along.sum(-1).view(features.shape[:3])


def products(theta: Tensor, contexts: Tensor) -> Tensor:
    """⟨θ, x⟩ of (B, U, d) and (B, U or 1, M, d): (B, U, M)."""
    if contexts.shape[1] == 1 and theta.shape[1] * contexts.shape[2] > 64:
        return torch.matmul(theta, contexts[:, 0].mT)
    return (contexts * theta.unsqueeze(2)).sum(-1)  # many small products are slow as matrices


def check_size(contexts: Tensor, regularization: float) -> None:
    """Refuses contexts x with 64·eps·‖x‖² > λ: rounding would hide what others say of θ."""
    largest = float(contexts.norm(dim=-1).max()) if contexts.numel() else 0.0
    if SOLVED * largest * largest > regularization:
        raise FairbanditError(
            f"rounding would hide all contexts but that of norm {largest:.3g}; use contexts of a "
            "smaller scale or a larger regularization (λ)"
        )
