"""What one would write instead: sequential policies as lean NumPy loops, one round at a time.

V⁻¹, θ and ln det V are kept by rank-one updates (Sherman and Morrison), in memory that is used
again. It does no more than decide: no ties, no checks, no injected noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tests.literal import Draws

POLICIES = ("greedy", "oful")


def play(
    policy: str, draws: Draws, *, regularization: float = 0.1, exploration: float = 1.0
) -> NDArray[np.int64]:
    """Every decision of greedy or OFUL, (T,)."""
    rounds, places, d = draws.contexts.shape
    actions = np.zeros(rounds, dtype=np.int64)
    inverse, theta, growth = np.eye(d) / regularization, np.zeros(d), 0.0
    index, norms = np.zeros(places), np.zeros(places)
    rows, step, square = np.zeros((places, d)), np.zeros(d), np.zeros((d, d))
    optimistic, rewards = policy == "oful", draws.rewards
    a = int(draws.ties[0] * places)
    for t, pool in enumerate(draws.contexts):
        if t:
            np.dot(pool, theta, out=index)
            if optimistic:
                np.dot(pool, inverse, out=rows)
                np.einsum("kd,kd->k", rows, pool, out=norms)
                np.sqrt(norms, out=norms)
                norms *= exploration * math.sqrt(2 * growth * math.log(t + 1))
                index += norms
            a = int(index.argmax())
        actions[t] = a
        x = pool[a]
        np.dot(inverse, x, out=step)
        scale = 1.0 + float(x @ step)
        growth += math.log(scale)
        missed = (rewards[t, a] - float(x @ theta)) / scale
        np.outer(step, step, out=square)
        square /= scale
        inverse -= square
        step *= missed
        theta += step
    return actions
