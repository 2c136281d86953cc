"""What is asked about past scores, and how it is answered.

Shapes: B replicas, N rounds, K places in a pool, M values asked about in each round, G groups, d
features, U models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor


class ScoringModel(Protocol):
    """U models that score contexts."""

    def __len__(self) -> int:
        """The number of models, U."""

    @property
    def theta(self) -> Tensor | None:
        """The weights (B, U, d) of linear models, whose scores are ⟨θ, x⟩; None for others."""

    def of_features(self, features: Tensor) -> ScoringModel | None:
        """The same models for contexts of some features (w,), the others being 0; None if unable.

        Models with a `theta` are never asked, since their products are computed from it.
        """

    def score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        """Scores contexts.

        Args:
            contexts: (B, U, M, d), each model's own, or (B, 1, M, d), scored by every model.
            groups: the contexts' groups, (B, U, M) or (B, 1, M) int64.

        Returns:
            Scores, (B, U, M).
        """


class Query(NamedTuple):
    """N consecutive rounds whose past is asked about.

    The past of round t is its window: the contexts of rounds start+1 … stop, where
    0 ≤ start ≤ stop < t. In a store with a bounded memory of m, only those of them count that are
    among the last m contexts of their group before round t.

    Attributes:
        first: the first of the rounds, from 1.
        start, stop: the window of each round, (N,) int64, both nondecreasing.
        model: the U models of the rounds.
        of_round: which model scores the past of each round, (N,) int64, nondecreasing.
    """

    first: int
    start: Tensor
    stop: Tensor
    model: ScoringModel
    of_round: Tensor


class PastScores(ABC):
    """The past scores that (B, N, M) values are compared with, each in its round and its group."""

    @property
    @abstractmethod
    def count(self) -> Tensor:
        """How many contexts of its group the window of each value's round holds.

        (B, N, M) float64, 0 for values of no group.
        """

    @abstractmethod
    def count_le(self, values: Tensor) -> Tensor:
        """How many of these contexts score no higher than each value.

        Args:
            values: (B, N, M); nothing is at most NaN.

        Returns:
            Counts, (B, N, M) float64.
        """

    @abstractmethod
    def sum(self, f: Callable[..., Tensor], *values: Tensor, ages: bool = False) -> Tensor:
        """The sum of f(past score, *values) over these contexts.

        Args:
            f: an elementwise function, real or boolean, of tensors that broadcast against each
                other.
            values: each (B, N, M).
            ages: whether f also gets, last, a tensor of the shape of the past scores which says
                how many rounds ago, at least 1, each past context came.

        Returns:
            Sums, (B, N, M) float64.
        """
