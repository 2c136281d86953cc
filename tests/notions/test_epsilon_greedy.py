"""ε-greedy beside its literal loop."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit.environments import Environment
from tests import literal, support
from tests.notions.worlds import equals_its_loop, everywhere, world_of

EPSILON, REGULARIZATION = 0.1, 0.1


def loop(draws: literal.Draws, world: Environment, seed: int) -> NDArray[np.int64]:
    """Ridge regression on all picks; the best with 1 − ε, and anyone of the pool with ε."""
    T, K, d = draws.contexts.shape
    X, r, actions = np.zeros((T, d)), np.zeros(T), np.zeros(T, dtype=np.int64)
    for t in range(1, T + 1):
        pool, groups = draws.contexts[t - 1], draws.groups[t - 1]
        score, tie = np.zeros(K), np.zeros(K)
        if t > 1:
            theta = literal.ridge(X[: t - 1], r[: t - 1], REGULARIZATION)[1]
            for a in range(K):
                score[a], tie[a] = literal.scored(pool[a], theta)
        present = groups >= 0
        best = present & (tie >= score[present].max())
        chance = (1 - EPSILON) * best / best.sum() + EPSILON * present / present.sum()
        cumulative = np.cumsum(chance)
        a = int(np.argmax(cumulative > draws.ties[t - 1] * cumulative[-1]))
        actions[t - 1], X[t - 1], r[t - 1] = a, pool[a], draws.rewards[t - 1, a]
    return actions


@everywhere
def test_epsilon_greedy(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = world_of(kind, tmp_path_factory)
    equals_its_loop(support.policy("epsilon_greedy"), loop, world, seed)
