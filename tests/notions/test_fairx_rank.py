"""Exposure in proportion to relative ranks beside its literal loop."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit.environments import Environment
from tests import literal, support
from tests.notions.worlds import equals_its_loop, everywhere, world_of

NOISE, REGULARIZATION, FLOOR = 1e-8, 0.1, 0.01


def loop(draws: literal.Draws, world: Environment, seed: int) -> NDArray[np.int64]:
    """Half of the rounds train, the other half rank; a chance as max(share of no higher, γ).

    Real chances agree with the package's up to rounding; see the loop of FairX-LinTS.
    """
    T, K, d = draws.contexts.shape
    X, r, actions = np.zeros((T, d)), np.zeros(T), np.zeros(T, dtype=np.int64)
    for t in range(1, T + 1):
        pool, groups, merit = draws.contexts[t - 1], draws.groups[t - 1], np.ones(K)
        half = (t - 1) // 2
        if half > 0:
            theta = literal.ridge(X[:half], r[:half], REGULARIZATION)[1]
            theta = theta + NOISE / (d * np.sqrt(half)) * draws.gamma[half - 1]
            past = draws.contexts[half : t - 1].reshape(-1, d) @ theta
            of = draws.groups[half : t - 1].reshape(-1)
            for a in range(K):
                own = past[of == groups[a]]
                top = literal.scored(pool[a], theta)[1]
                share = np.count_nonzero(own <= top) / len(own) if len(own) else None
                merit[a] = max(draws.unseen[t - 1, a] if share is None else share, FLOOR)
        cumulative = np.cumsum(merit * (groups >= 0))
        a = int(np.argmax(cumulative > draws.ties[t - 1] * cumulative[-1]))
        actions[t - 1], X[t - 1], r[t - 1] = a, pool[a], draws.rewards[t - 1, a]
    return actions


@everywhere
def test_fairx_rank(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    equals_its_loop(support.policy("fairx_rank"), loop, world_of(kind, tmp_path_factory), seed)
