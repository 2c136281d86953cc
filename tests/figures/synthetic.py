"""Runs that nobody played, for figures of many runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairbandit.runs import Run, Scene
from fairbandit.runs.intervals import moments
from fairbandit.runs.scenes import scenes_of
from fairbandit.runs.settings import LACKING

ROUNDS = 500
STEPS = np.arange(1, ROUNDS + 1, 50)
REPLICAS = 4
SIX = [0.01, 0.05, 0.1, 0.5, 1.0, 10.0]


def saved(
    policy: str,
    finals: Mapping[str, Sequence[float]],
    groups: Sequence[str] = ("a", "b", "c"),
    config: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Run:
    """A run of four replicas, of whose metrics the values after the last round are given.

    `finals` has the values of each metric in each replica, NaN where not known; `config` is the
    policy's; `changes` are to the summary, and `higher` names metrics of which higher is better.
    """
    higher = changes.pop("higher", ())
    spreads, curves = {}, []
    for column, values in finals.items():
        count, mean, std = (part[()] for part in moments(values))
        ends = {"mean": mean, "std": std}
        spreads[column] = {
            **{key: None if np.isnan(end) else float(end) for key, end in ends.items()},
            **{"n": int(count), "reduce": "sum", "lower_is_better": column not in higher},
        }
        for n, value in enumerate(values):
            points = {"round": STEPS, "value": value * STEPS / STEPS[-1]}
            curves.append(
                pd.DataFrame({"replica": n, "measure": column, "group": LACKING, **points})
            )
    numbers = range(REPLICAS)
    rows: list[tuple[int, str, str, float]] = [
        (n, column, LACKING, v)
        for column, some in finals.items()
        for n, v in zip(numbers, some, strict=False)
    ]
    if "unit" in changes:
        rows += [(n, "cost_per_pick", LACKING, v) for n, _, _, v in rows[:REPLICAS]]
    noise, each = np.array([-9.0, 9.0, -9.0, 9.0]) * 0.75**0.5, dict[str, Any]()
    for place, group in enumerate(groups):
        each[group] = {"mean": 20.0 + 8 * place, "std": 9.0}
        for name in ("selected", "received", "selection_rate"):
            rows += [
                (n, name, group, v) for n, v in zip(numbers, 20.0 + 8 * place + noise, strict=True)
            ]
    table = pd.DataFrame(rows, columns=["replica", "measure", "group", "value"])
    summary = {
        **{"policy": policy, "environment": "simulation", "rounds": ROUNDS, "replicas": REPLICAS},
        **{"seed": 0, "seconds": 1.0, "groups": list(groups), "versions": {}, "metrics": spreads},
        **dict.fromkeys(("selected", "received", "selection_rate"), each),
        "config": {"policy": dict(config or {})},
        **changes,
    }
    run = Run(Path(policy), summary)
    grid = np.linspace(0, 1, 50)
    densities = [1 + k * np.sin(3 * grid) for k in range(len(groups))]
    rewards = [pd.DataFrame({"value": grid, "density": one, "cdf": grid}) for one in densities]
    run.__dict__.update(  # which else are read from files
        finals=table, curves=pd.concat(curves), rewards=tuple(rewards)
    )
    return run


def around(mean: float, *noise: float) -> list[float]:
    """The values of four replicas."""
    return [mean + one for one in noise or (-1.5, -0.5, 0.5, 1.5)]


def scene_of(*runs: Run) -> Scene:
    """The runs in one scene."""
    (found,) = scenes_of(runs)
    return found


def crossed(
    policies: Sequence[str], groups: Sequence[str] = ("a", "b", "c"), **settings: Sequence[Any]
) -> Scene:
    """Runs of all combinations of policies and of settings of their estimators."""
    combinations = product(policies, *settings.values())
    runs = []
    for number, (policy, *values) in enumerate(combinations):
        ends = {"standard_regret": 40.0 + 9 * number, "fair_regret": 30.0 + 20 * (number % 7)}
        finals = {column: around(end, -60, 0, 0, 60) for column, end in ends.items()}
        config = {"estimator": dict(zip(settings, values, strict=True))}
        runs.append(saved(policy, finals, groups, config))
    return scene_of(*runs)
