"""Estimators: turn what was learned into reward models."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Part
from fairbandit.parts.history import Outcomes
from fairbandit.parts.model import LinearModel, RewardModel, TrueLinearModel, TrueModel
from fairbandit.parts.splits import PAPER
from fairbandit.registry import base, register


@base("estimator")
class Estimator(Part):
    """Gives the reward models of a block of rounds; a subclass writes `_models`.

    An estimator that keeps sums writes `_commit` too: it then gets each outcome once more than it
    is asked for models, and needs no past outcomes. An estimator that refits all past outcomes
    declares `needs = frozenset({"rewards"})` and gets all of them each time.

    A part never changes a tensor that it was given, such as the contexts and rewards of outcomes,
    nor the parameters of a model that it has returned.
    """

    learns: ClassVar[bool] = True
    """Whether models depend on rewards; one that does not is asked for 0 training rounds alone."""
    every_round: ClassVar[bool] = False
    """Whether each round has a model of its own, also where training rounds are the same, as
    where a round's model is drawn at random."""
    sums: ClassVar[bool] = False
    """Whether `absorb` is written: outcomes can be taken in one by one and in any order."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        one_draw = cls.draws and not cls.every_round  # rounds that share a draw depend on it
        cls.reads_past = cls.reads_past or cls.learns or one_draw

    @property
    def draws_models(self) -> bool:
        """Whether it draws a reward model for each round, as in posterior sampling.

        The probabilities of a policy are those given the draw. Noise that is drawn once for each
        number of training rounds, as that of `ridge`, is no such draw: `every_round` is false.
        """
        return self.draws and self.every_round

    def models(
        self, rounds: Tensor, n_train: Tensor, outcomes: Outcomes
    ) -> tuple[RewardModel, Tensor]:
        """The reward models of N rounds. Asking for them changes nothing.

        Args:
            rounds: t, (N,) int64, ascending.
            n_train: how many first rounds train the model of each round, (N,) int64,
                nondecreasing, and no less than was committed.
            outcomes: of the rounds after the last one committed, up to the largest n_train; of all
                rounds from the first, if the estimator needs rewards.

        Returns:
            U distinct models, and which of them each round uses, (N,) int64.

        Raises:
            FairbanditError: a model that is not finite.
        """
        n_train = n_train if self.learns else torch.zeros_like(n_train)
        count = n_train.shape[0]
        of_round = torch.arange(count, device=n_train.device)
        if not self.every_round and count > 1:
            first = torch.ones_like(n_train, dtype=torch.bool)
            first[1:] = n_train.diff() > 0
            if not bool(first.all()):
                of_round = first.cumsum(0) - 1
                rounds, n_train = rounds[first], n_train[first]
        numbers = n_train.tolist()
        model = self._models(rounds.tolist(), numbers, outcomes)
        # a sum is finite where all terms are, up to overflow, and much cheaper to look at
        if not all(
            math.isfinite(float(p.sum())) or bool(p.isfinite().all()) for p in model.parameters
        ):
            raise FairbanditError(
                f"estimator {self.part_name!r} gave a model that is not finite between rounds "
                f"{numbers[0]} and {numbers[-1]}"
            )
        return model, of_round

    def commit(self, n: int, outcomes: Outcomes) -> None:
        """Takes in the outcomes up to round n for good.

        Args:
            n: no less than in an earlier call.
            outcomes: as given to `models` whose last n_train was n, or would be given to it.
        """
        if self.learns:
            self._commit(n, outcomes)

    def absorb(self, n: int, outcomes: Outcomes) -> None:
        """Takes in outcomes that models after n or more training rounds include.

        It is called, in any order, for rewards that come late, n being at most the number of
        rounds committed, and for outcomes that the history shall not keep.

        Args:
            n: the number of training rounds.
            outcomes: contexts (B, m, d), groups (B, m) and rewards (B, m).

        Raises:
            FairbanditError: an estimator that keeps sums and does not override this.
        """
        if self.learns and "rewards" not in self.needs:
            raise FairbanditError(
                f"estimator {self.part_name!r} cannot learn from a reward that comes after later "
                "decisions were made: it has no `absorb`, and does not need rewards"
            )

    @abstractmethod
    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        """U models, each after a number of training rounds; see `models`.

        A round whose reward is not known has group −1, context 0 and reward 0 among the outcomes.

        Args:
            rounds: the first round that uses each model.
            n_train: ascending.
            outcomes: contexts (B, n, d), groups (B, n) and rewards (B, n).
        """

    def _commit(self, n: int, outcomes: Outcomes) -> None:
        """Takes in outcomes for good; see `commit`."""


@register("estimator", "oracle")
class Oracle(Estimator):
    """The true rewards, such as ⟨μ*, x⟩."""

    reference = PAPER
    needs_truth = True
    learns = False
    has_bounds = True

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        truth = self.problem.truth
        assert truth is not None
        if truth.theta is None:
            return TrueModel(truth)
        return TrueLinearModel(truth.theta.expand(self.problem.replicas, 1, -1))


@register("estimator", "zero")
class Zero(Estimator):
    """A model that knows nothing: θ = 0, so that all scores tie."""

    reference = PAPER
    learns = False

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        return LinearModel(self.problem.zeros(self.problem.replicas, 1, self.problem.features))
