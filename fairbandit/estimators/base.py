"""Estimators: turn past rewards into reward models."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError, typed
from fairbandit.estimators.models import RewardModel, all_finite
from fairbandit.history import NEVER, History, Outcomes, State
from fairbandit.history.problem import Problem
from fairbandit.registry import base
from fairbandit.registry.part import Part
from fairbandit.splits import Plan


class Models(NamedTuple):
    """The reward models of N rounds.

    Attributes:
        distinct: U distinct reward models.
        of_round: the number of the model that each round uses, (N,) int64, nondecreasing.
        informed: which rounds' models have learned from a reward, (N,) bool; None if all have, or
            if the estimator does not learn.
    """

    distinct: RewardModel
    of_round: Tensor
    informed: Tensor | None = None

    @property
    def of_rounds(self) -> RewardModel:
        """One reward model for each round."""
        if len(self.distinct) == self.of_round.shape[0]:
            return self.distinct
        return self.distinct.take(self.of_round)

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

        Args:
            history: the history, which may hold a guess of the outcomes of these rounds.
            plan: the rounds, and the number of first rounds that train each round's model.

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
        of_round = torch.arange(n, device=problem.device)
        may_share = not self.draws_models and "truth" not in self.needs  # a truth may drift
        if may_share and n > 1 and len(set(numbers)) < n:
            distinct, where, number = np.unique(numbers, return_index=True, return_inverse=True)
            rounds, numbers = [rounds[at] for at in where], distinct.tolist()
            of_round = torch.from_numpy(number).to(problem.device)
        if "rewards" in self.needs:  # a fit to all outcomes may compute gradients
            with torch.inference_mode(False):
                outcomes = history.outcomes_of(0, numbers[-1]).copied()
                model = self._models(problem, state, rounds, numbers, outcomes)
        else:
            outcomes = history.outcomes_of(history.n_state, numbers[-1])
            model = self._models(problem, state, rounds, numbers, outcomes)
        self._check(model, len(rounds))
        if not all(all_finite(p) for p in model.parameters if p.is_floating_point()):
            raise FairbanditError(
                f"{self} gave a model that is not finite, trained on the first {numbers[0]} to "
                f"{numbers[-1]} rounds"
            )
        if len(model) < len(rounds):  # one model for all rounds
            of_round.zero_()
        return Models(model, of_round, informed)

    def _check(self, model: RewardModel, number: int) -> None:
        if not isinstance(model, RewardModel):
            raise FairbanditError(
                f"{self} gave {typed(model)}; expected a reward model, such as LinearModel(theta)"
            )
        theta = model.theta
        if len(model) not in (1, number) or (theta is not None and theta.ndim != 3):
            raise FairbanditError(
                f"{self} gave a {type(model).__name__} whose first parameter is "
                f"{typed(model.parameters[0])}; expected the shape (B, U, …) with U = {number}, "
                "the number of `n_train`, or U = 1"
            )

    def advance(self, state: State, outcomes: Outcomes) -> State:
        """The state after further outcomes, which may belong to any rounds."""
        return self._advance(state, outcomes) if outcomes.n else state

    def grow(self, state: State, problem: Problem) -> State:
        """The state in a problem with more groups, if it depends on their number."""
        return state

    @abstractmethod
    def _models(
        self,
        problem: Problem,
        state: State,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
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
