"""Parts without a fault, from which faulty ones are made."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.environments import Environment, Pools, Truth
from fairbandit.estimators import Estimator, LinearModel, State
from fairbandit.estimators.ties import Approximate
from fairbandit.history import Outcomes, Problem
from fairbandit.metrics import Judged, Metric
from fairbandit.ranks import Rank, Scored
from fairbandit.streams import Purpose


class Score(Rank):
    """The score."""

    def _index(self, scored: Scored) -> Approximate:
        return scored.scores


class Sums(NamedTuple):
    """Σx·r of each group, (B, G, d), and how many outcomes it is of, (B,)."""

    sums: Tensor
    n: Any


class Averaging(Estimator):
    """The mean of x·r over all groups."""

    def init(self, problem: Problem) -> State:
        sums = problem.zeros(problem.replicas, problem.groups, problem.features)
        return Sums(sums, problem.zeros(problem.replicas))

    def _advance(self, state: State, outcomes: Outcomes) -> State:
        return Sums(state.sums + added(state, outcomes), state.n + (outcomes.groups >= 0).sum(1))

    def grow(self, state: State, problem: Problem) -> State:
        more = problem.groups - state.sums.shape[1]
        return state._replace(sums=torch.nn.functional.pad(state.sums, (0, 0, 0, more)))

    def _models(
        self, problem: Problem, state: State, rounds: Any, n_train: Any, outcomes: Outcomes
    ) -> LinearModel:
        later = [self._advance(state, outcomes.rows(0, n)) for n in outcomes.counts(n_train)]
        means = [one.sums.sum(1) / one.n.clamp(min=1)[:, None] for one in later]
        return LinearModel(torch.stack(means, 1))


def added(state: State, outcomes: Outcomes) -> Tensor:
    own = outcomes.groups[:, None] == torch.arange(state.sums.shape[1])[:, None]
    return own.double() @ (outcomes.contexts * outcomes.rewards[..., None])


class World(Environment):
    """One feature, uniform; one group; rewards without noise."""

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 1, 2, ("all",)
        self.truth = Truth(torch.ones(1, dtype=torch.float64), self.cdf)

    @staticmethod
    def cdf(groups: Tensor, values: Tensor, rounds: Tensor) -> Tensor:
        return values.clamp(0, 1)

    def drawn(self, first: int, count: int) -> Tensor:
        return self.streams[Purpose.POOLS].uniform(first, count, 2)

    def _pools(self, first: int, count: int) -> Pools:
        x = self.drawn(first, count)
        groups = torch.zeros(x.shape, dtype=torch.int64)
        return Pools(x[..., None], groups, x, x, self.cdf(groups, x, groups))


class Counting(Metric):
    """The number of rounds so far."""

    def init(self, problem: Problem) -> Tensor:
        return problem.zeros(problem.replicas, 1)

    def _values(self, judged: Judged, count: Tensor) -> tuple[Tensor, Tensor]:
        rounds = judged.selection.propensities.new_ones(judged.selection.actions.shape[:2])
        values = count + rounds.cumsum(1)
        return values, values[:, -1:]
