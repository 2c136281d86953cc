"""`python -m tests.studies.mistakes`: false alarms of the notices of mistakes in logs.

Prints a Markdown table: for each kind of right log, the share of logs with a notice.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from fairbandit.logs import Log
from fairbandit.logs.mistakes import note_mistakes
from fairbandit.notices import noted
from tests.evaluation.logs import rows

Draws = np.random.Generator

REWARDS: dict[str, Callable[[Draws, Any], Any]] = {
    "binary": lambda draws, mean: draws.random(mean.shape) < 1 / (1 + np.exp(-mean)),
    "count": lambda draws, mean: draws.poisson(np.exp(mean / 2)),
    "zero-inflated": lambda draws, mean: (
        draws.gamma(2, np.exp(mean)) * (draws.random(mean.shape) < 0.4)
    ),
    "continuous": lambda draws, mean: mean + draws.normal(size=mean.shape),
}
"""The rewards of picks with a mean or its logarithm or logit."""

RIGHT = (*REWARDS, "pools by group", "learning")
"""The kinds of right logs."""


def right(kind: str, seed: int, n: int | None = None) -> Log:
    """Returns a right log of a random number of decisions.

    The best of a pool is picked with a probability of ½, or of nearly 1 in the end of a log of a
    policy that learns. Pools by group have features that differ between the groups by 0.5.
    """
    draws = np.random.default_rng(seed)
    n, k = n or int(draws.choice([60, 250, 1000, 3000])), int(draws.integers(2, 7))
    groups = draws.choice(2, (n, k), p=[0.3, 0.7])
    x, level = draws.normal(size=(n, k, 3)), draws.normal()
    if kind == "pools by group":
        groups[:] = groups[:, :1]
        x += 0.5 * groups[..., None]
    merit = x @ draws.normal(size=3) + level + groups
    learned = 1 - 1 / (1 + np.arange(n) / 50) if kind == "learning" else 0.5
    picks = np.where(draws.random(n) < learned, merit.argmax(1), draws.integers(0, k, n))[:, None]
    mean = np.take_along_axis(merit, picks, 1)
    return Log(
        **rows(groups, contexts=x, probabilities=None),
        labels=("a", "b"),
        picks=picks,
        rewards=REWARDS.get(kind, REWARDS["continuous"])(draws, mean) * 1.0,
        propensities=np.full((n, 1), np.nan),
        features=("age", "years", "test"),
        names=range(n),
    )


def filled(value: Callable[[Any], float]) -> Callable[[Log], dict[str, Any]]:
    """Returns a mistake that writes a value for 30 % of the rewards."""

    def mistake(log: Log) -> dict[str, Any]:
        missing = np.random.default_rng(0).random(log.rewards.shape) < 0.3
        return {"rewards": np.where(missing, value(log.rewards[~missing]), log.rewards)}

    return mistake


def later(log: Log) -> Any:
    """Returns whether each decision is in the later half."""
    return np.arange(len(log)) >= len(log) // 2


MISTAKES: dict[str, Callable[[Log], dict[str, Any]]] = {
    "missing as 0": filled(lambda rewards: 0.0),
    "missing as -1": filled(lambda rewards: -1.0),
    "missing as -999": filled(lambda rewards: -999.0),
    "missing as the mean": filled(np.mean),
    "cents": lambda log: {"rewards": log.rewards * np.where(later(log), 100, 1)[:, None]},
    "costs": lambda log: {"rewards": log.rewards * np.where(later(log), -1, 1)[:, None]},
    "labels swapped": lambda log: {"groups": log.groups ^ later(log)[log.decisions]},
    "the group of the pick": lambda log: {"groups": log.at_picks(log.groups)[log.decisions, 0]},
}
"""What each mistake changes in a log."""


def notices(log: Log) -> list[str]:
    """Returns the notices of a log."""
    with noted() as found:
        note_mistakes(log, "the log")
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=400)
    given = parser.parse_args()
    print("| right logs | noted |\n|---|---|")
    for kind in RIGHT:
        share = np.mean([bool(notices(right(kind, seed))) for seed in range(given.logs)])
        print(f"| {kind} | {share:.2%} |", flush=True)


if __name__ == "__main__":
    main()
