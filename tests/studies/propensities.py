"""`python -m tests.studies.propensities`: false refusals and power of the tests of propensities.

Prints two Markdown tables, in some five minutes. The first has the shares of 400 right logs of
1,000 decisions whose weighted estimates are refused. In the second, the log says 1/K, but the
candidate whom a policy prefers has the probability 0.3 + 0.7/K. Its cells are the median numbers of
decisions, in steps of 50, after which the log is refused, and the shares of 40 logs of 3,000
decisions that are not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fairbandit.evaluation.sums import Sums
from fairbandit.logs import Floats, Ints, Log
from tests.evaluation.logs import rows

Draws = np.random.Generator

PREFERS: dict[str, Callable[[Floats, Ints], Floats]] = {
    "large x": lambda x, groups: x,
    "middle x": lambda x, groups: -(x**2),
    "extreme x": lambda x, groups: x**2,
    "large x in a, small in b": lambda x, groups: np.where(groups == 0, x, -x),
    "group a": lambda x, groups: (groups == 0) + 1e-6 * x,
}

SETTINGS: dict[str, tuple[int, Callable[[Draws, tuple[int, ...]], Floats]]] = {
    "K = 2": (2, Draws.standard_normal),
    "K = 4": (4, Draws.standard_normal),
    "K = 5": (5, Draws.standard_normal),
    "K = 20": (20, Draws.standard_normal),
    "K = 4, x exponential": (4, Draws.standard_exponential),
    "K = 4, x Cauchy": (4, Draws.standard_cauchy),
}
"""The sizes of pools, and the distributions of features."""


def preferring(seed: int, prefers: str, setting: str, n: int, strength: float = 0.3) -> Log:
    """A log that says 1/K, while a policy prefers a candidate of each pool by the first feature."""
    draws, (k, law) = np.random.default_rng(seed), SETTINGS[setting]
    x, groups = law(draws, (n, k, 3)), draws.integers(0, 2, (n, k))
    best = PREFERS[prefers](x[..., 0], groups).argmax(1)
    picks = np.where(draws.random(n) < strength, best, draws.integers(0, k, n))[:, None]
    return log_of(x, groups, picks, np.full((n, k), 1 / k))


def log_of(x: Floats, groups: Ints, picks: Ints, p: Floats) -> Log:
    """A log whose rewards are all 0."""
    return Log(
        **rows(groups, contexts=x, probabilities=p),
        labels=tuple("abcd"[: groups.max() + 1]),
        picks=picks,
        rewards=np.zeros(picks.shape),
        propensities=np.take_along_axis(p, picks, 1),
        features=tuple(f"x{i}" for i in range(x.shape[2])),
        names=range(len(x)),
    )


def right(
    seed: int,
    n: int,
    law: Callable[[Draws, tuple[int, ...]], Floats] = Draws.standard_normal,
    shares: tuple[float, ...] = (0.5, 0.5),
    picks: int = 1,
    decimals: int = 17,
    again: bool = False,
) -> Log:
    """A log with the right probabilities, which depend on x, x² and the group.

    m candidates are the best of the pool with probability ½, else m random ones. With `again`,
    who is not picked comes again in the place of a candidate of the next pool.
    """
    draws, k = np.random.default_rng(seed), 6
    x, groups = law(draws, (n, k, 3)), draws.choice(len(shares), (n, k), p=shares)
    weight, order, chosen = draws.normal(size=3), draws.random((n, k)).argsort(1), draws.random(n)
    p, made = np.full((n, k), picks / k / 2), np.empty((n, picks), np.int64)
    steps: list[Any] = [*range(n)] if again else [slice(n)]
    for t in steps:
        if again and t:
            left = next(place for place in order[t - 1, ::-1] if place not in made[t - 1])
            x[t, 0], groups[t, 0] = x[t - 1, left].copy(), groups[t - 1, left]
        merit = x[t] @ weight + weight[0] * x[t][..., 1] ** 2 * (groups[t] == 0)
        best = (-merit).argsort(-1)[..., :picks]
        np.put_along_axis(p[t], best, picks / k / 2 + 0.5, -1)
        made[t] = np.where(chosen[t][..., None] < 0.5, best, order[t][..., :picks])
    return log_of(x, groups, made, p.round(decimals))


RIGHT: dict[str, Callable[[int], Log]] = {
    "normal features": lambda seed: right(seed, 1000),
    "Cauchy features": lambda seed: right(seed, 1000, Draws.standard_cauchy),
    "groups of 2 % and 8 %": lambda seed: right(seed, 1000, shares=(0.02, 0.08, 0.9)),
    "shortlists of 3": lambda seed: right(seed, 1000, picks=3),
    "2 decimals": lambda seed: right(seed, 1000, decimals=2),
    "3 decimals": lambda seed: right(seed, 1000, decimals=3),
    "candidates who come again": lambda seed: right(seed, 1000, again=True),
    "propensities of picks alone": lambda seed: replace(right(seed, 1000), probabilities=None),
    "30 decisions": lambda seed: right(seed, 30),
}


def refused(log: Log) -> bool:
    """Whether propensities are taken for wrong."""
    rows = len(log.decisions)
    return bool(Sums.of(log, (log.slots / log.sizes)[log.decisions], np.zeros(rows)).wrong)


def needed(log: Log, step: int = 50) -> float:
    """The number of decisions after which a log is refused; ∞ if it is not."""
    for n in range(step, len(log) + 1, step):
        if refused(log[:n]):
            return n
    return np.inf


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=400)
    given = parser.parse_args()
    print("| right logs | refused |\n|---|---|")
    for name, make in RIGHT.items():
        share = np.mean([refused(make(seed)) for seed in range(given.logs)])
        print(f"| {name} | {share:.2%} |", flush=True)
    print("\n| prefers |", " | ".join(SETTINGS), "|\n|---" + "|---" * len(SETTINGS) + "|")
    for prefers in PREFERS:
        cells = []
        for setting in SETTINGS:
            logs = [preferring(seed, prefers, setting, 3000) for seed in range(given.logs // 10)]
            found = np.array([needed(log) for log in logs])
            cells.append(f"{np.median(found):.0f}, {np.isinf(found).mean():.0%}")
        print("|", " | ".join([prefers, *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
