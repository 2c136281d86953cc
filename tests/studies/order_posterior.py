"""What an order costs at the start: `python -m tests.studies.order_posterior`, 6 to 20 minutes.

Learners that know the rewards and learners that know only their order in each group play by exact
posteriors. Their difference is the price of the order, whatever the estimator.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit.history import Outcomes, Problem
from fairbandit.registry import create
from fairbandit.streams import Streams
from tests.studies.order_worlds import FEATURES, NOISE, Array, D, G, mean

Learner = Callable[[Array, NDArray[np.int64], Array], Array]
"""θ, (B, d), from the contexts, groups and rewards of all picks, (B, n, …)."""


def log_order(means: Array, first: NDArray[np.bool_]) -> Array:
    """log P(u_1 < … < u_n in each group), u_k being normal with these means and the variance 1.

    By F_k(t) = ∫_{−∞}^t φ(s − mean_k)·F_{k−1}(s) ds on a grid, where F starts from 1 in each group.

    Args:
        means: by group, and by reward within it, (R, n).
        first: whether a group starts, (R, n).
    """
    low, high, step = means.min(1) - 5, means.max(1) + 5, 0.35
    grid = low[:, None] + step * np.arange(int((high - low).max() / step) + 2)
    below, found = np.ones_like(grid), np.zeros(len(means))
    for center, fresh in zip(means.T[..., None], first.T[..., None], strict=True):
        mass = np.exp(-np.square(grid - center) / 2) * np.where(fresh, step, step * below)
        total = np.maximum(mass.sum(1), 1e-300)
        below = (mass.cumsum(1) - mass / 2) / total[:, None]
        found += np.log(total / math.sqrt(2 * math.pi))
    return found


class OrderPosterior:
    """E[θ | the order of rewards in each group], for θ standard normal, by elliptical slice
    sampling (Murray, Adams, MacKay 2010) with the exact likelihood; chains go on as picks come."""

    def __init__(self, runs: int, chains: int = 12, steps: int = 9) -> None:
        self.draws, self.steps = np.random.default_rng(1), steps
        self.theta = self.draws.normal(size=(runs, chains, D)).reshape(-1, D)
        self.run = np.repeat(np.arange(runs), chains)

    def __call__(self, x: Array, groups: NDArray[np.int64], rewards: Array) -> Array:
        order = np.lexsort((rewards, groups))
        ordered = np.take_along_axis(groups, order, 1)
        first = np.diff(ordered, axis=1, prepend=-1) > 0
        x = np.take_along_axis(x, order[..., None], 1) / NOISE

        def likelihood(theta: Array, run: NDArray[np.int64]) -> Array:
            return log_order((x[run] @ theta[..., None])[..., 0], first[run])

        value, kept = likelihood(self.theta, self.run), np.zeros((len(x), D))
        for step in range(self.steps):
            self.theta, value = self._moved(value, likelihood)
            if step >= self.steps // 3:
                kept += self.theta.reshape(len(x), -1, D).mean(1)
        return kept / (self.steps - self.steps // 3)

    def _moved(self, value: Array, likelihood: Callable[..., Array]) -> tuple[Array, Array]:
        theta, draws, todo = self.theta.copy(), self.draws, np.arange(len(value))
        other, level = (
            draws.normal(size=theta.shape),
            value + np.log(draws.uniform(size=len(theta))),
        )
        angle, value = draws.uniform(0, 2 * math.pi, len(theta)), value.copy()
        low, high = angle - 2 * math.pi, angle.copy()
        while len(todo):
            turned = np.cos(angle[todo, None]) * self.theta[todo]
            turned += np.sin(angle[todo, None]) * other[todo]
            found = likelihood(turned, self.run[todo])
            inside = found > level[todo]
            theta[todo[inside]], value[todo[inside]] = turned[inside], found[inside]
            todo = todo[~inside]
            low[todo] = np.where(angle[todo] < 0, angle[todo], low[todo])
            high[todo] = np.where(angle[todo] < 0, high[todo], angle[todo])
            angle[todo] = draws.uniform(low[todo], high[todo])
        return theta, value


def of_rewards(x: Array, groups: NDArray[np.int64], rewards: Array, level: float = 0.0) -> Array:
    """E[θ | rewards], with a level of each group that is normal with this deviation."""
    rows = np.concatenate([x, level * np.eye(G)[groups]], 2)
    equations = rows.mT @ rows + NOISE**2 * np.eye(D + G)
    found: Array = np.linalg.solve(equations, rows.mT @ rewards[..., None])[:, :D, 0]
    return found


def of_pairs(x: Array, groups: NDArray[np.int64], rewards: Array) -> Array:
    """The estimate of `pairwise_probit`."""
    made: Any = create("estimator", {"name": "pairwise_probit"})
    problem = Problem(features=D, groups=G, streams=Streams(0, range(len(x))))
    n = x.shape[1]
    known = Outcomes(torch.arange(1, n + 1), *map(torch.from_numpy, (x, groups, rewards)))
    found: Array = (
        made._models(problem, made.init(problem), [n + 1], [n], known).theta[:, 0].numpy()
    )
    return found


def start(learner: Learner, runs: int, rounds: int, kind: str = "Gaussian") -> Array:
    """The fair regret so far, (B, T), of a learner that picks by E[θ] and the empirical CDF.

    There is one candidate of each of four groups, which are alike; θ is standard normal.
    """
    draws, every = np.random.default_rng(0), np.arange(runs)
    theta = draws.normal(size=(runs, 1, D))
    people = FEATURES[kind](draws, 20_000)
    people = people - people.mean(0)
    chosen = draws.integers(len(people), size=(runs, rounds, G))
    values = theta[:, 0] @ people.T
    ranks = np.take_along_axis(values.argsort(1).argsort(1), chosen.reshape(runs, -1), 1)
    ranks = (ranks.reshape(chosen.shape) + 1) / len(people)
    x = people[chosen]
    rewards = (x @ theta[..., None])[..., 0] + NOISE * draws.normal(size=chosen.shape)
    picks = draws.integers(G, size=(runs, rounds))
    for t in range(1, rounds):
        past = every[:, None], np.arange(t), picks[:, :t]
        theta = learner(x[past], picks[:, :t], rewards[past])
        scores = (x[:, : t + 1] @ theta[:, None, :, None])[..., 0]
        index = (scores[:, :t] <= scores[:, t:]).mean(1) + 1e-9 * draws.uniform(size=(runs, G))
        picks[:, t] = index.argmax(1)
    picked = np.take_along_axis(ranks, picks[..., None], 2)[..., 0]
    found: Array = (ranks.max(2) - picked).cumsum(1)
    return found


LEARNERS: dict[str, Callable[[int], Learner]] = {
    "rewards | exact posterior": lambda runs: of_rewards,
    "rewards up to a level of each group | exact posterior": lambda runs: partial(
        of_rewards, level=30.0
    ),
    "order in each group | exact posterior": OrderPosterior,
    "order in each group | `pairwise_probit`": lambda runs: of_pairs,
}
"""What is known and how θ is estimated; for so many runs."""


def main() -> None:
    """Prints the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    print("| features | known | estimate | 5 rounds | 10 | 20 | 30 |")
    print("|---" * 7 + "|")
    for kind in ("Gaussian", "exponential"):
        for known, learner in LEARNERS.items():
            regret = start(learner(200), 200, 30, kind)
            cells = " | ".join(mean(regret[:, n - 1]) for n in (5, 10, 20, 30))
            print(f"| {kind} | {known} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
