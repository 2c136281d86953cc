"""Estimators: turn what was learned into a reward model."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Part
from fairbandit.parts.history import History
from fairbandit.parts.model import LinearModel, RewardModel
from fairbandit.parts.splits import PAPER
from fairbandit.registry import base, register


@base("estimator")
class Estimator(Part):
    """Gives the reward models of a stretch of rounds; a subclass writes `_models`.

    A part never changes a tensor that it was given, such as the picks and rewards of the history,
    nor the parameters of a model that it has returned.
    """

    learns: ClassVar[bool] = True
    """Whether models depend on rewards; one that does not is asked for node 0 alone."""
    least_squares: ClassVar[bool] = False
    """Whether of picks x and rewards r only Σ x xᵀ and Σ r x matter, whatever rows give them."""

    def reach(self, t: int) -> int:
        """The last round that teaches the estimator at round t."""
        return self.problem.split.taught(t) if self.learns else 0

    def models(self, nodes: Tensor, history: History) -> tuple[RewardModel, Tensor]:
        """The reward models after given numbers of rounds were learned from.

        Args:
            nodes: how many rounds teach each of the N rounds at hand, (N,) int64, nondecreasing,
                and never below an earlier call's.
            history: past picks and rewards.

        Returns:
            The model of the U distinct nodes, and which of them each round uses, (N,) int64.

        Raises:
            FairbanditError: a model that is not finite.
        """
        nodes = nodes if self.learns else torch.zeros_like(nodes)
        taught = nodes.tolist()
        distinct = sorted(set(taught))
        if len(distinct) == len(taught):
            of_round = torch.arange(len(taught), device=nodes.device)
        else:
            some = torch.tensor(distinct, device=nodes.device)
            of_round = torch.searchsorted(some, nodes.contiguous())
        model = self._models(distinct, history)
        # a sum is finite where all terms are, up to overflow, and much cheaper to look at
        if not all(
            math.isfinite(float(p.sum())) or bool(p.isfinite().all()) for p in model.parameters
        ):
            raise FairbanditError(
                f"estimator {self.part_name!r} gave a model that is not finite between rounds "
                f"{taught[0]} and {taught[-1]}"
            )
        return model, of_round

    def absorb(self, node: int, history: History) -> None:
        """Takes in the rounds up to a node where no model is asked for.

        Args:
            node: never below an earlier one.
            history: past picks and rewards.
        """
        self.models(torch.tensor([node], device=self.problem.device), history)

    def amend(self, contexts: Tensor, rewards: Tensor) -> None:
        """Learns rewards that came late: of rounds up to the last node, unknown until now.

        Args:
            contexts: the picks, (B, n, d).
            rewards: theirs, (B, n).

        Raises:
            FairbanditError: an estimator that learns and does not override this.
        """
        if self.learns:
            raise FairbanditError(
                f"estimator {self.part_name!r} cannot learn from a reward that comes after later "
                "decisions were made: it has no `amend`"
            )

    @abstractmethod
    def _models(self, nodes: list[int], history: History) -> RewardModel:
        """The models after each of the given, ascending numbers of rounds."""


@register("estimator", "oracle")
class Oracle(Estimator):
    """The true reward model: θ = μ*."""

    reference = PAPER
    needs_truth = True
    learns = False

    def _models(self, nodes: list[int], history: History) -> RewardModel:
        assert self.problem.truth is not None
        return LinearModel(self.problem.truth.linear_theta().expand(self.problem.replicas, 1, -1))


@register("estimator", "zero")
class Zero(Estimator):
    """Knows nothing: θ = 0, so that all scores tie."""

    reference = PAPER
    learns = False

    def _models(self, nodes: list[int], history: History) -> RewardModel:
        return LinearModel(self.problem.zeros(self.problem.replicas, 1, self.problem.features))
