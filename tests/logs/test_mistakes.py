"""Mistakes that leave a trace in a log are noted, and right logs are not."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairbandit.logs import Log
from fairbandit.logs.mistakes import jump, note_mistakes
from fairbandit.notices import noted
from tests.evaluation.logs import random_log, read_log

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


def right(kind: str, seed: int, n: int | None = None) -> Any:
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
    parts: dict[str, Any] = {"groups": groups, "labels": ("a", "b"), "contexts": x, "picks": picks}
    parts["rewards"] = REWARDS.get(kind, REWARDS["continuous"])(draws, mean) * 1.0
    return random_log(n, **parts, propensities=np.full((n, 1), np.nan), probabilities=None)


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


PLACE = r"about decision (19\d|20\d)"
"""The middle of 400 decisions."""

NOTICES = {
    **dict.fromkeys([*MISTAKES][:4], r"26% of the rewards are \S+, and most others differ"),
    "cents": f"from {PLACE} on, rewards are .* times as large as before",
    "costs": f"of the rewards other than 0 are positive before {PLACE}, and",
    "labels swapped": f"from {PLACE} on, the groups a and b differ",
    "the group of the pick": "no decision has candidates of two groups",
}


@pytest.mark.parametrize("logs", [10, pytest.param(400, marks=pytest.mark.all)])
def test_right_logs_are_not_noted(logs):
    """The true rates are 0, and some 3 % for pools by group: 2 % of 60 logs have one notice."""
    with noted() as notices:
        for kind in RIGHT:
            for seed in range(logs):
                note_mistakes(right(kind, seed), "the log")
    assert len(notices) <= 0.02 * logs * len(RIGHT)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noted(mistake):
    log = right("continuous", seed=1, n=400)
    others, found = (
        read_log(table.frame, propensity=None).notes
        for table in (log, replace(log, **MISTAKES[mistake](log)))
    )
    (notice,) = {*found} - {*others}
    assert re.search(NOTICES[mistake], notice), notice


@pytest.mark.parametrize("where", [25, 100, 170])
def test_a_jump_is_the_best_division_and_a_trend_is_none(where):
    draws = np.random.default_rng(where)
    values = draws.normal(size=200) + 3.0 * (np.arange(200) >= where)
    within = {t: values[:t].var() * t + values[t:].var() * (200 - t) for t in range(20, 181)}
    best = min(within, key=lambda t: within[t])
    assert jump(values) == (best, values[:best].mean(), values[best:].mean())
    assert jump(draws.normal(size=200) + np.linspace(0, 3, 200)) is None
