"""The chain of intervals of the relative rank, by its definition."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit.environments import Environment
from tests import literal, support
from tests.notions.chains import chained, equals_where_it_excludes, intervals, one_of
from tests.notions.worlds import KINDS, equals_its_loop, everywhere, world_of

NARROW = 0.001
"""A multiple of the radius with which candidates are excluded within few rounds."""


def loop(
    draws: literal.Draws, world: Environment, seed: int, exploration: float = 1.0
) -> NDArray[np.int64]:
    T, K, d = draws.contexts.shape
    G = len(world.group_names)
    actions, X, r = np.zeros(T, dtype=np.int64), np.zeros((T, d)), np.zeros(T)
    trained = 0  # the rounds of the model, which grow by a tenth, and by one round at least
    for t in range(T):
        if t >= max(trained + 1, math.ceil(1.1 * trained)):
            trained = t
        pool, low, high = draws.contexts[t], np.zeros(K), np.ones(K)
        if t > 0:
            past = draws.contexts[:t].reshape(-1, d)
            every = np.concatenate([pool, past])
            lower, upper = intervals(
                X[:trained], r[:trained], every, delta=0.025, exploration=exploration
            )
            group_of = draws.groups[:t].reshape(-1)
            for a in range(K):
                member = group_of == draws.groups[t, a]
                n = np.count_nonzero(member)
                if n > 0:
                    below = np.count_nonzero(upper[K:][member] <= lower[a]) / n
                    reached = np.count_nonzero(lower[K:][member] <= upper[a]) / n
                    epsilon = np.sqrt(np.log(2 * G * n * (n + 1) / 0.025) / (2 * n))
                    low[a], high[a] = max(below - epsilon, 0), min(reached + epsilon, 1)
        a = one_of(chained(low, high), draws.ties[t])
        actions[t], X[t], r[t] = a, pool[a], draws.rewards[t, a]
    return actions


@everywhere
def test_equals_its_loop(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = world_of(kind, tmp_path_factory)
    equals_its_loop(support.policy("rank_interval_chain"), loop, world, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_its_loop_where_it_excludes(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    equals_where_it_excludes("rank_interval_chain", loop, NARROW, world_of(kind, tmp_path_factory))
