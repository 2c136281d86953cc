"""The chain of reward intervals (Joseph et al.), as its source writes it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit.environments import Environment
from tests import literal, support
from tests.notions.chains import chained, equals_where_it_excludes, intervals, one_of
from tests.notions.worlds import KINDS, equals_its_loop, everywhere, world_of

NARROW = 0.03
"""A multiple of the radius with which candidates are excluded within few rounds."""


def loop(
    draws: literal.Draws, world: Environment, seed: int, exploration: float = 1.0
) -> NDArray[np.int64]:
    T, K, d = draws.contexts.shape
    actions, X, r = np.zeros(T, dtype=np.int64), np.zeros((T, d)), np.zeros(T)
    for t in range(T):
        pool, low, high = draws.contexts[t], np.full(K, -np.inf), np.full(K, np.inf)
        if t > 0:
            low, high = intervals(X[:t], r[:t], pool, delta=0.05, exploration=exploration)
        a = one_of(chained(low, high), draws.ties[t])
        actions[t], X[t], r[t] = a, pool[a], draws.rewards[t, a]
    return actions


@everywhere
def test_equals_its_loop(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = world_of(kind, tmp_path_factory)
    equals_its_loop(support.policy("interval_chain"), loop, world, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_its_loop_where_it_excludes(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    equals_where_it_excludes("interval_chain", loop, NARROW, world_of(kind, tmp_path_factory))
