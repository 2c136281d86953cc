"""FairX-LinTS beside its literal loop."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit.environments import Environment
from tests import literal, support
from tests.notions.worlds import equals_its_loop, everywhere, world_of

SCALE, REGULARIZATION, FLOOR = 1.0, 0.1, 0.01


def loop(draws: literal.Draws, world: Environment, seed: int) -> NDArray[np.int64]:
    """One θ̃ ~ N(θ̂, v²V⁻¹) a round, and each candidate with a chance as max(⟨θ̃, x⟩, γ).

    The package divides merits by the greatest of the pool before it adds them up. Its chances
    differ by rounding, which a uniform number of 53 digits hits once in about 10¹⁵ rounds.
    """
    T, K, d = draws.contexts.shape
    X, r, actions = np.zeros((T, d)), np.zeros(T), np.zeros(T, dtype=np.int64)
    for t in range(1, T + 1):
        pool, merit = draws.contexts[t - 1], np.ones(K)
        if t > 1:
            V, mean = literal.ridge(X[: t - 1], r[: t - 1], REGULARIZATION)
            z = draws.gamma[t - 1]
            drawn = mean + SCALE * np.linalg.solve(np.linalg.cholesky(V).T, z)
            merit = np.maximum(pool @ drawn, FLOOR)
        cumulative = np.cumsum(merit * (draws.groups[t - 1] >= 0))
        a = int(np.argmax(cumulative > draws.ties[t - 1] * cumulative[-1]))
        actions[t - 1], X[t - 1], r[t - 1] = a, pool[a], draws.rewards[t - 1, a]
    return actions


@everywhere
def test_fairx_lints(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    equals_its_loop(support.policy("fairx_lints"), loop, world_of(kind, tmp_path_factory), seed)
