"""Estimators: turn what was learned into reward models."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.models import RewardModel
from fairbandit.modes import inferring
from fairbandit.part import Part, Problem
from fairbandit.past.outcomes import Outcomes
from fairbandit.registry import base

State = Any
"""What an estimator has learned: plain tuples of tensors and numbers, never changed in place."""


@base("estimator")
class Estimator(Part):
    """Gives the reward models of a block of rounds; a subclass writes `_models`.

    An estimator that keeps sums also writes `_init` and `_advance`, which takes in each outcome
    once, in any order. One that refits all past outcomes declares `needs = frozenset({"rewards"})`
    and is given all of them each time, as tensors of which it may compute gradients.
    """

    draws_models: ClassVar[bool] = False
    """Whether each round draws a model of its own, as in posterior sampling. The probabilities of a
    policy are those given the draw."""

    def init(self, problem: Problem) -> State:
        """The state before the first round."""
        return self._init(problem)

    def models(
        self,
        problem: Problem,
        state: State,
        rounds: Sequence[int],
        n_train: Sequence[int],
        outcomes: Outcomes,
    ) -> tuple[RewardModel, Tensor]:
        """The reward models of N rounds.

        Args:
            problem: what is played.
            state: includes the outcomes of some first rounds.
            rounds: t, N of them, ascending.
            n_train: how many first rounds train the model of each, N of them, nondecreasing, and no
                less than the state includes; 0 if the estimator does not learn.
            outcomes: those of rounds up to the last n_train that the state does not include, in
                order of round; with those that it includes, if the estimator needs rewards. The
                model of round t is trained on those of rounds up to its n_train.

        Returns:
            U distinct models, and which of them each round uses, (N,) int64.

        Raises:
            FairbanditError: a model that is not finite.
        """
        t, numbers = list(rounds), list(n_train)
        model_of_round = torch.arange(len(t), device=problem.device)
        alike = not self.draws_models and "truth" not in self.needs  # a truth may drift
        if alike and len(set(numbers)) < len(numbers):
            distinct, first, number = np.unique(numbers, return_index=True, return_inverse=True)
            t, numbers = [t[at] for at in first], distinct.tolist()
            model_of_round = torch.from_numpy(number).to(problem.device)
        if "rewards" in self.needs:  # a fit to all outcomes may compute gradients
            outcomes = inferring(False, outcomes.copied)
            model = inferring(False, self._models, problem, state, t, numbers, outcomes)
        else:
            model = self._models(problem, state, t, numbers, outcomes)
        # a sum is finite where all terms are, up to overflow, and much cheaper to look at
        if not all(
            math.isfinite(float(p.sum())) or bool(p.isfinite().all())
            for p in model.parameters
            if p.is_floating_point()
        ):
            raise FairbanditError(
                f"{self} gave a model that is not finite between rounds "
                f"{numbers[0]} and {numbers[-1]}"
            )
        if len(model) < len(t):  # one for all
            model_of_round.zero_()
        return model, model_of_round

    def advance(self, state: State, outcomes: Outcomes) -> State:
        """The state that includes further outcomes, which may be of any rounds."""
        return self._advance(state, outcomes) if outcomes.n else state

    def grow(self, state: State, problem: Problem) -> State:
        """The state in a problem with more groups."""
        return self._grow(state, problem)

    @abstractmethod
    def _models(
        self,
        problem: Problem,
        state: State,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        """U models, each after a number of training rounds, or one for all; see `models`.

        Args:
            problem, state, outcomes: as for `models`.
            rounds: the first round that uses each model.
            n_train: ascending; `outcomes.counts(n_train)` says how many of the outcomes train each.
        """

    def _init(self, problem: Problem) -> State:
        return ()

    def _advance(self, state: State, outcomes: Outcomes) -> State:
        return state

    def _grow(self, state: State, problem: Problem) -> State:
        return state


def learns(estimator: type[Estimator]) -> bool:
    """Whether models depend on rewards: the estimator takes outcomes in, or needs all of them."""
    return estimator._advance is not Estimator._advance or "rewards" in estimator.needs
