"""Rounds with random picks, for metrics to judge."""

from dataclasses import replace

from torch import Tensor

from fairbandit.conformance import Scattered
from fairbandit.history import Problem
from fairbandit.metrics import Judged, Metric
from fairbandit.selectors import Selection
from fairbandit.streams import Purpose, Streams

ROUNDS = 60

PROBLEM = Problem(4, 3, Streams(1, range(3)), truth=Scattered().truth)
"""Pools have empty places, groups are absent from many, and some true rewards are negative."""


def random_rounds() -> Judged:
    """Rounds of `PROBLEM`, of which each candidate is picked with a random probability."""
    world = Scattered()
    world.bind(PROBLEM.streams)
    pools = world.pools(1, ROUNDS)
    drawn = PROBLEM.streams[Purpose.SELECTOR].uniform(1, ROUNDS, world.places + 1)
    weights = drawn[..., :-1].masked_fill(pools.groups < 0, 0)
    probabilities = weights / weights.sum(2, keepdim=True)
    actions = (probabilities.cumsum(2) > drawn[..., -1:]).byte().argmax(2)
    propensities = probabilities.gather(2, actions[..., None]).squeeze(2)
    return Judged(PROBLEM, 1, pools, Selection(actions, propensities, probabilities))


def judge(metric: Metric, judged: Judged, problem: Problem = PROBLEM) -> Tensor:
    """A metric's values of the first rounds of a problem, (B, N)."""
    return metric.values(replace(judged, problem=problem), metric.init(problem))[0]
