"""What the counts need to know of reward models."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class ScoringModel(Protocol):
    """U models that score contexts.

    Contexts are (B, U, M, d), each model's own, or (B, 1, M, d), scored by every model. Their
    groups are (B, U, M) or (B, 1, M) int64. Scores and bounds are (B, U, M).
    """

    def __len__(self) -> int:
        """The number of models, U."""

    @property
    def theta(self) -> Tensor | None:
        """The weights (B, U, d) of linear models, whose scores are ⟨θ, x⟩; None for others."""

    def score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """Scores contexts of given groups."""

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds; a `FairbanditError` if the models have none."""
