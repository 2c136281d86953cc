"""The contract of an estimator, and the reward models that it makes of past rewards."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError, typed
from fairbandit.estimators.ties import PLAIN, Approximate
from fairbandit.history import NEVER, History, Outcomes, Problem, State
from fairbandit.history.contexts import Ints
from fairbandit.registry import Part, base
from fairbandit.splits import Plan
from fairbandit.streams import Purpose

Rounds = list[int]  # numbers of rounds

Floats = NDArray[np.float64]


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
        taken.parameters = tuple(p.index_select(1, index.to(p.device)) for p in self.parameters)
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
        """Scores, and a bound on the rounding error of each; see `score` and `estimators.ties`."""
        scores = self._score(contexts, groups)
        return Approximate(scores, self._error(contexts, groups, scores))

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper confidence bounds of the true rewards of contexts, (B, U, M) each.

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
        return Approximate(terms.sum(-1), terms.abs_().sum(-1).mul_(self._tolerance))

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
    largest = float(torch.linalg.vector_norm(contexts, dim=-1).amax()) if contexts.numel() else 0.0
    if 16 * torch.finfo(torch.float64).eps * largest * largest > regularization:
        raise FairbanditError(
            f"rounding would hide all contexts but the largest, of norm {largest:.3g}; use "
            "contexts of a smaller scale or a larger regularization (λ)"
        )


def fit_tables(problem: Problem, outcomes: Outcomes, n_train: int) -> Iterator[tuple[int, Floats]]:
    """A seed, and the rows [r x] of the outcomes, for each replica of a model that is refitted."""
    draws = problem.streams[Purpose.ESTIMATOR].uniform(max(n_train, 1), 1, 1).flatten().tolist()
    played, x, groups, rewards = (part.numpy(force=True) for part in outcomes)
    for b, draw in enumerate(draws):
        rows = np.flatnonzero(groups[b] >= 0)
        # sorted, since the order of arrival in a round must not matter
        rows = rows[np.lexsort((*x[b, rows].T, rewards[b, rows], played[rows]))]
        yield int(draw * 2**32), np.column_stack([rewards[b, rows], x[b, rows]])


class Models(NamedTuple):
    """The reward models of N rounds.

    Attributes:
        distinct: U distinct reward models.
        of_round: the number of the model that each round uses, (N,), never decreasing.
        informed: which rounds' models have learned from a reward, (N,) bool; None if all have, or
            if the estimator does not learn.
    """

    distinct: RewardModel
    of_round: Ints
    informed: Tensor | None = None

    @property
    def of_rounds(self) -> RewardModel:
        """One reward model for each round."""
        if len(self.distinct) == len(self.of_round):
            return self.distinct
        return self.distinct.take(torch.from_numpy(self.of_round))

    def if_informed(self, values: Tensor, otherwise: float) -> Tensor:
        """Replaces values (B, N, K) in rounds whose model has seen no reward."""
        return values if self.informed is None else values.where(self.informed[:, None], otherwise)


@base("estimator")
class Estimator(Part):
    """Gives the reward models of a block of rounds; a subclass writes `_models`.

    An estimator that keeps sums also writes `init` and `_advance`; `_advance` receives every
    outcome exactly once, in any order. An estimator that refits all past outcomes declares
    `needs = frozenset({"rewards"})`; `_models` then gets all of them and may use gradients.
    """

    learns: ClassVar[bool] = True
    """Whether reward models depend on rewards. If so, all candidates tie until the model has seen a
    reward."""
    draws_models: ClassVar[bool] = False
    """Whether each round draws its own model, as in posterior sampling. Probabilities of the policy
    are then conditional on the draw."""

    def init(self, problem: Problem) -> State:
        """The state before the first round; () unless a subclass keeps sums."""
        return ()

    def models(self, history: History, plan: Plan) -> Models:
        """The reward models of N rounds.

        The model of a round is trained on the known outcomes of its first `n_train` rounds. In the
        first guess of a block, the outcomes of undecided rounds are missing.

        Raises:
            FairbanditError: the models have the wrong type or shape, or are not finite.
        """
        problem, state, n = history.problem, history.state, len(plan.n_train)
        first, informed = int(plan.rounds[0]), None
        # without a guess, no reward of the open block is known
        last = NEVER if history.guess is not None or history.rewards_pending else first - 1
        numbers = np.minimum(plan.n_train, last).tolist()
        if self.learns and numbers[0] < history.first_reward:
            informed = torch.tensor(numbers, device=problem.device) >= history.first_reward
        rounds = list(range(first, first + n))
        of_round = np.arange(n)
        may_share = not self.draws_models and "truth" not in self.needs  # a truth may drift
        if may_share and n > 1 and len(set(numbers)) < n:
            distinct, where, number = np.unique(numbers, return_index=True, return_inverse=True)
            rounds, numbers = [rounds[at] for at in where], distinct.tolist()
            of_round = number
        if "rewards" in self.needs:  # a fit to all outcomes may compute gradients
            with torch.inference_mode(False):
                outcomes = history.outcomes_of(0, numbers[-1]).copied()
                model = self._models(problem, state, rounds, numbers, outcomes)
        else:
            outcomes = history.outcomes_of(history.n_state, numbers[-1])
            model = self._models(problem, state, rounds, numbers, outcomes)
        if not isinstance(model, RewardModel):
            raise FairbanditError(
                f"{self} gave {typed(model)}; expected a reward model, such as LinearModel(theta)"
            )
        theta, u = model.theta, len(model)
        if u not in (1, len(rounds)) or (theta is not None and theta.ndim != 3):
            raise FairbanditError(
                f"{self} gave a {type(model).__name__} whose first parameter is "
                f"{typed(model.parameters[0])}; expected the shape (B, U, …) with U = "
                f"{len(rounds)}, the number of `n_train`, or U = 1"
            )
        for parameter in model.parameters:
            if parameter.is_floating_point() and not all_finite(parameter):
                raise FairbanditError(
                    f"{self} gave a model that is not finite, trained on the first {numbers[0]} to "
                    f"{numbers[-1]} rounds"
                )
        if u < len(rounds):  # one model for all rounds
            of_round[:] = 0
        return Models(model, of_round, informed)

    def advance(self, state: State, outcomes: Outcomes) -> State:
        """The state after further outcomes, which may belong to any rounds."""
        return self._advance(state, outcomes) if outcomes.n else state

    def grow(self, state: State, problem: Problem) -> State:
        """The state in a problem with more groups, if it depends on their number."""
        return state

    @abstractmethod
    def _models(
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        """U models, one for each number of training rounds; or one model for all rounds.

        Args:
            problem: the problem that is played.
            state: the state, which includes the outcomes up to some round.
            rounds: the first round that uses each model, U numbers.
            n_train: the number of first rounds that train each model, ascending; 0 for all if the
                estimator does not learn. `outcomes.counts(n_train)` counts the outcomes of each.
            outcomes: the outcomes up to the last n_train that are not in the state, in order of
                round; all outcomes if the estimator needs rewards.
        """

    def _advance(self, state: State, outcomes: Outcomes) -> State:
        return state
