"""A policy without an agent that decides one pool at a time, beside a plain loop in NumPy."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit.history import Outcomes, Problem
from fairbandit.policy.build import build_policy
from fairbandit.streams import Streams
from tests.benchmarks.measure import median, threads
from tests.benchmarks.rows import Measure, Row, Target
from tests.benchmarks.worlds import Bench, Scale

PARTS = {
    "split": "halves",
    "estimator": {"name": "ridge", "noise": 0.0},
    "rank": "empirical_cdf",
    "selector": "argmax",
}

ROUNDS = {Scale.full: (500, 1000), Scale.quick: (300, 200), Scale.tiny: (20, 10)}
"""Rounds of history, and rounds timed after them."""

SIZES = {(24, 4): 6, (40, 10): 4}
"""The largest ratio to the plain loop, by d and K."""

Array = NDArray[np.float64]


class Loop:
    """Fair-Greedy with halves and ridge regression, λ = 0.1, for one pick from each pool."""

    def __init__(self, rounds: int, places: int, features: int) -> None:
        self.gram, self.sums, self.trained = 0.1 * np.eye(features), np.zeros(features), 0
        self.pools, self.groups = np.zeros((rounds, places, features)), np.zeros((rounds, places))
        self.picks, self.rewards = np.zeros((rounds, features)), np.zeros(rounds)

    def ranks(self, t: int, x: Array, groups: NDArray[np.int64]) -> Array:
        """The estimated relative rank of each candidate of round t; 0 for a new group."""
        half = (t - 1) // 2
        for s in range(self.trained, half):
            self.gram += np.outer(self.picks[s], self.picks[s])
            self.sums += self.rewards[s] * self.picks[s]
        self.trained = half
        theta = np.linalg.solve(self.gram, self.sums)
        past, members = self.pools[half : t - 1] @ theta, self.groups[half : t - 1]
        highest = x @ theta + 2e-9 * np.abs(x * theta).sum(1)
        ranks = np.zeros(len(x))
        for place, group in enumerate(groups):
            mine = past[members == group]
            ranks[place] = np.count_nonzero(mine <= highest[place]) / max(len(mine), 1)
        return ranks


def alone(bench: Bench) -> Iterator[Row]:
    """`open`, `propose`, `close` and `tell` at pools of one round, with rewards in time."""
    for (features, places), most in SIZES.items():
        name = f"Policy alone, one pool of {places} candidates × {features} features, median"
        bench.say(name)
        ours, loop = timed(features, places, *ROUNDS[bench.scale])
        yield Row(
            name, ours, "plain loop", loop, longer=True, targets=(Target(Measure.longer, most),)
        )


def timed(features: int, places: int, history: int, rounds: int) -> tuple[float, float]:
    """Median seconds of a processor of the policy and of the loop, which must decide alike."""
    draws, policy = np.random.default_rng(0), build_policy(PARTS)
    theta, taken = draws.normal(size=features), list[tuple[float, float]]()
    loop = Loop(history + rounds, places, features)
    with threads(), torch.inference_mode():
        known = policy.init(Problem(features, 2, Streams(0, [0])))
        for t in range(1, history + rounds + 1):
            x, groups = draws.normal(size=(places, features)), draws.integers(0, 2, places)
            start = time.process_time()
            contexts, codes = torch.from_numpy(x)[None, None], torch.from_numpy(groups)[None, None]
            opened = policy.open(known, contexts, codes)
            selection = policy.propose(opened)
            pick = int(selection.actions)
            known = policy.close(opened, selection)
            reward = float(x[pick] @ theta + draws.normal())
            arrived = contexts[:, 0, [pick]], codes[:, 0, [pick]], torch.tensor([[reward]]).double()
            known = policy.tell(known, Outcomes(torch.tensor([t]), *arrived))
            middle = time.process_time()
            if t > 2:  # before, no context is in a window, or no reward is known
                ranks = loop.ranks(t, x, groups)
            loop.pools[t - 1], loop.groups[t - 1] = x, groups
            loop.picks[t - 1], loop.rewards[t - 1] = x[pick], reward
            if t > history:
                assert ranks[pick] == ranks.max(), "the plain loop decides otherwise"
                taken.append((middle - start, time.process_time() - middle))
    ours, plain = zip(*taken, strict=True)
    return median(ours), median(plain)
