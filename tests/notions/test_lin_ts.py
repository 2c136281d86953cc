"""Linear Thompson sampling beside its literal loop."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit.environments import Environment
from tests import literal, support
from tests.notions.worlds import equals_its_loop, everywhere, world_of

SCALE, REGULARIZATION = 1.0, 0.1


def loop(draws: literal.Draws, world: Environment, seed: int) -> NDArray[np.int64]:
    """The greatest ⟨θ̃, x⟩ with θ̃ = θ̂ + v·L⁻ᵀz and LLᵀ = V; the first pick is uniform."""
    T, K, d = draws.contexts.shape
    X, r, actions = np.zeros((T, d)), np.zeros(T), np.zeros(T, dtype=np.int64)
    for t in range(1, T + 1):
        pool = draws.contexts[t - 1]
        score, tie = np.zeros(K), np.zeros(K)
        if t > 1:
            V, mean = literal.ridge(X[: t - 1], r[: t - 1], REGULARIZATION)
            z = draws.gamma[t - 1]
            drawn = mean + SCALE * np.linalg.solve(np.linalg.cholesky(V).T, z)
            for a in range(K):
                score[a], tie[a] = literal.scored(pool[a], drawn)
        a = literal.pick(score, tie, draws.ties[t - 1])
        actions[t - 1], X[t - 1], r[t - 1] = a, pool[a], draws.rewards[t - 1, a]
    return actions


@everywhere
def test_lin_ts(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    equals_its_loop(support.policy("lin_ts"), loop, world_of(kind, tmp_path_factory), seed)
