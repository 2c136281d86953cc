"""`python -m tests.studies.drift`: false alarms and power of the audit's tests, in six minutes.

Prints two Markdown tables. In the first, nothing changes but perhaps the sizes of pools, candidates
are picked and ordered at random, and a pool has a level of its own: two of its candidates have the
correlation ρ in every feature. Its cells are the shares of logs of 400 decisions in which a test
rejects for some group, at the level 0.05 for all groups together. In the second table, a feature of
the first of two groups shifts by 0.7σ at decision 500 of 1,500. Its cells are the median numbers of
decisions from the shift until drift is rejected, and the shares of logs in which it is never, or
before the shift.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial

import numpy as np

from fairbandit.audit.processes import arrival, disparity, drift
from fairbandit.logs import Floats, Ints, Log
from tests.evaluation.logs import rows

LEVEL = 0.05

CORRELATIONS = [0.0, 0.1, 0.3, 0.5, 0.9]

Sizes = Callable[[np.random.Generator, int], Ints]
"""Draws the sizes of n pools."""

WORLDS: dict[str, tuple[tuple[float, ...], Sizes, bool]] = {
    "pools of 6, 2 groups": ((0.5, 0.5), lambda draws, n: np.full(n, 6), False),
    "of 12, 4 groups": ((0.5, 0.3, 0.15, 0.05), lambda draws, n: np.full(n, 12), False),
    "of 2 to 12": ((0.5, 0.5), lambda draws, n: draws.integers(2, 13, n), False),
    "of 2, later of 12": ((0.5, 0.5), lambda draws, n: np.where(np.arange(n) < 250, 2, 12), True),
}
"""The shares of the groups, the sizes of pools, and whether features have skewed distributions."""

TESTS: dict[str, Callable[..., Floats]] = {
    "drift": drift,
    "order": arrival,
    "parity": partial(disparity, epsilon=0.0),
}


def world(
    seed: int,
    n: int,
    rho: float,
    shares: tuple[float, ...],
    sizes: Sizes,
    skewed: bool = False,
    shift: float = 0.0,
    at: int = 0,
    own_places: bool = False,
) -> Log:
    """A log of uniform picks, in which group 0 shifts by shift·σ at decision `at`.

    With `own_places`, all groups have the same number of candidates in each pool.
    """
    draws = np.random.default_rng(seed)
    size = sizes(draws, n)
    k = int(size.max())
    groups = draws.choice(len(shares), (n, k), p=shares)
    if own_places:
        groups = np.tile(np.arange(k) % len(shares), (n, 1))
    level, own = draws.normal(size=(n, 1, 2)), draws.normal(size=(n, k, 2))
    contexts = math.sqrt(rho) * level + math.sqrt(1 - rho) * own
    if skewed:
        contexts = np.exp(contexts)
    contexts[at:, :, 0] += shift * (groups[at:] == 0)
    picks = draws.integers(size)[:, None]
    rewards = contexts[np.arange(n), picks[:, 0]] @ [1.0, 0.5] + 0.3 * draws.normal(size=n)
    groups = np.where(np.arange(k) < size[:, None], groups, -1)
    return Log(
        **rows(groups, contexts=contexts, probabilities=None),
        labels=tuple(f"group {number}" for number in range(len(shares))),
        picks=picks,
        rewards=rewards[:, None],
        propensities=1 / size[:, None],
        features=("x0", "x1"),
        names=range(n),
    )


def rejected(test: Callable[..., Floats], log: Log) -> Ints:
    """The decisions, from 1, at which a test rejects for each group; 0 where it does not."""
    above = test(log, log.groups, log.labels) >= math.log(len(log.labels) / LEVEL)
    return np.where(above.any(1), above.argmax(1) + 1, 0)


def false_alarms(test: str, name: str, rho: float, logs: int) -> float:
    """The share of logs without a change in which a test rejects."""
    found = [rejected(TESTS[test], world(seed, 400, rho, *WORLDS[name])) for seed in range(logs)]
    return float(np.mean([each.any() for each in found]))


def delays(rho: float, places: int, logs: int, n: int = 1500, at: int = 500) -> Floats:
    """The decisions from a shift of 0.7σ until it is detected in each log; ∞ where it is not."""
    sizes: Sizes = lambda draws, n: np.full(n, 2 * places)  # noqa: E731
    shifted = partial(world, shares=(0.5, 0.5), sizes=sizes, shift=0.7, at=at, own_places=True)
    found = [rejected(drift, shifted(seed, n, rho))[0] for seed in range(logs)]
    return np.array([first - at if first > at else np.inf for first in found])


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--tests", nargs="+", default=list(TESTS), choices=TESTS)
    given = parser.parse_args()
    print("| false alarms of | ρ |", " | ".join(WORLDS), "|\n|" + "---|" * (2 + len(WORLDS)))
    for test in given.tests:
        for rho in CORRELATIONS:
            cells = [f"{false_alarms(test, name, rho, given.logs):.1%}" for name in WORLDS]
            print("|", " | ".join([test, str(rho), *cells]), "|", flush=True)
    print("\n| candidates of each group in a pool |", end=" ")
    print(" | ".join(f"ρ = {rho}" for rho in CORRELATIONS), "|\n|---" + "|---" * 5 + "|")
    for places in (1, 3, 6):
        found = [delays(rho, places, given.logs // 3) for rho in CORRELATIONS]
        cells = [f"{np.median(each):.0f}, {np.isinf(each).mean():.0%}" for each in found]
        print("|", " | ".join([str(places), *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
