"""What both literal chains share: textbook confidence intervals, and a chain link by link."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments import Environment
from tests import support
from tests.literal import Array, ridge
from tests.notions.worlds import equals_its_loop

REGULARIZATION, SUBGAUSSIAN, NORM = 0.1, 2.0, 14.4


def intervals(
    X: Array, r: Array, contexts: Array, *, delta: float, exploration: float
) -> tuple[Array, Array]:
    """⟨θ, x⟩ ∓ cβ‖x‖ under V⁻¹ of contexts (M, d), β as in Abbasi-Yadkori et al., Theorem 2."""
    V, theta = ridge(X, r, REGULARIZATION)
    volume = 0.5 * (np.linalg.slogdet(V)[1] - V.shape[0] * np.log(REGULARIZATION))
    beta = SUBGAUSSIAN * np.sqrt(2 * (volume + np.log(1 / delta))) + NORM * np.sqrt(REGULARIZATION)
    beta *= exploration
    norms = np.sqrt(((contexts @ np.linalg.inv(V)) * contexts).sum(1))
    return contexts @ theta - beta * norms, contexts @ theta + beta * norms


def chained(low: Array, high: Array) -> NDArray[np.int64]:
    """Everyone whom overlaps connect to the highest interval, by adding neighbours one by one."""
    chain = {int(np.argmax(high))}
    while True:
        linked = {
            i
            for i in range(len(low))
            if any(low[i] <= high[j] and low[j] <= high[i] for j in chain)
        }
        if linked <= chain:
            return np.array(sorted(chain))
        chain |= linked


def equals_where_it_excludes(name: str, loop: Any, narrow: float, world: Environment) -> None:
    """Compares a chain with its loop at a multiple of the radius with which it excludes candidates.

    With the radius of the named policy almost nobody is excluded in so few rounds.
    """
    policy = support.policy(name, exploration=narrow)
    equals_its_loop(policy, partial(loop, exploration=narrow), world, 0)


def one_of(chain: NDArray[np.int64], draw: float) -> int:
    """One of them, uniformly: the first whose cumulative share exceeds the draw."""
    return int(chain[int(draw * len(chain))])
