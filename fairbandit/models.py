"""Reward models: what an estimator believes, and how it scores contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Self

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.regressions import Regressions

EPS = torch.finfo(torch.float64).eps

ROUNDING = 4 * EPS
"""How far rounding moves a product of given numbers, relative to the sum of its absolute terms."""


MOST = 1e-9
"""No error is larger than this, relative to the largest score that a ridge regression could give.
Scores that lie further apart never tie, even where rounding may have parted them."""


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
        """No error of these scores exceeds this; it may be cheaper to compute, and much larger.

        Args:
            contexts, groups, scores: as for `error`.
        """
        return self._error_limit(contexts, groups, scores)

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

    def _error_limit(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> float:
        """See `error_limit`."""
        return float(self.error(contexts, groups, scores).max())

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """See `bounds`."""
        raise NoBounds(
            f"{type(self).__name__} has no confidence bounds; the models of the estimators "
            "optimistic_ridge and oracle, for example, have them"
        )


class LinearModel(RewardModel):
    """Linear rewards: score(x) = ⟨θ, x⟩.

    Args:
        theta: (B, U, d).
        found: the regressions that gave θ, and know how far rounding has moved it; None where θ is
            given or drawn.
    """

    _index: Tensor | None  # which of the models that were solved these are; None if all

    def __init__(self, theta: Tensor, found: Regressions | None = None) -> None:
        super().__init__(theta)
        self._found, self._index = found, None

    @property
    def theta(self) -> Tensor | None:
        """θ, (B, U, d)."""
        return self.parameters[0]

    @property
    def is_off(self) -> bool:
        """Whether rounding has moved θ; see `RewardModel`."""
        return self._found is not None

    def take(self, index: Tensor) -> Self:
        """The models at the given positions; see `RewardModel`."""
        taken = super().take(index)
        taken._index = index if self._index is None else self._index[index]
        return taken

    def _features(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """What θ multiplies, as a function of contexts and groups."""
        return contexts

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return products(self.parameters[0], self._features(contexts, groups))

    def _error(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        features, theta = self._features(contexts, groups), self.parameters[0]
        error = products(max(ROUNDING, theta.shape[2] * EPS) * theta.abs(), features.abs())
        if self._found is None:
            return error
        error = error + self._moved(self._found, features, scores)
        return torch.minimum(error, self._most(self._found, features))

    def _error_limit(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> float:
        if self._found is None:
            return super()._error_limit(contexts, groups, scores)
        return float(self._most(self._found, self._features(contexts, groups)).max())

    def _moved(self, found: Regressions, features: Tensor, scores: Tensor) -> Tensor:
        """How far the rounding of the parameters may have moved each score, (B, U, M)."""
        along = projected(features, self._each(found.root)).abs_()
        return products(self._each(found.theta_error), along)

    def _most(self, found: Regressions, features: Tensor) -> Tensor:
        """The largest error that is stated, (B, U, 1)."""
        root, rewards = found.size
        size = features.square().sum(3).amax(2, keepdim=True).sqrt_()
        return MOST * (self._each(root) * self._scale(rewards))[..., None] * size

    def _scale(self, rewards: Tensor) -> Tensor:
        """The size of scores where ‖xF‖ is 1, (B, U or 1), given ‖r‖."""
        return rewards

    def _each(self, values: Tensor) -> Tensor:
        """What belongs to these models of values (B, U or 1, …) of all models that were solved."""
        if values.shape[1] == 1 or self._index is None:
            return values
        return values.index_select(1, self._index)


def products(theta: Tensor, contexts: Tensor) -> Tensor:
    """⟨θ, x⟩ of (B, U, d) and (B, U or 1, M, d): (B, U, M)."""
    if contexts.shape[1] == 1 and theta.shape[1] * contexts.shape[2] > 64:
        return torch.matmul(theta, contexts[:, 0].mT)
    return (contexts * theta.unsqueeze(2)).sum(-1)  # many small products are slow as matrices


def projected(contexts: Tensor, root: Tensor) -> Tensor:
    """xF of (B, U or 1, M, d) and (B, U or 1, d, d): (B, U or 1, M, d)."""
    if root.shape[1] > 1:
        return contexts @ root
    return (contexts.flatten(1, 2) @ root[:, 0]).view(contexts.shape)
