"""Runs that nobody played, for figures of many runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairbandit.runs import Run
from fairbandit.runs.scenes import Scene, scenes_of
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
    measures = {(column, LACKING): values for column, values in finals.items()}
    if "unit" in changes:
        measures["cost_per_pick", LACKING] = next(iter(finals.values()))
    noise = np.array([-9.0, 9.0, -9.0, 9.0]) * 0.75**0.5
    names = "selected", "received", "selection_rate"
    for place, group in enumerate(groups):
        measures |= {(name, group): list(20.0 + 8 * place + noise) for name in names}
    columns = ["measure", "group", "replica", "value"]
    rows = [(*key, n, value) for key, values in measures.items() for n, value in enumerate(values)]
    table = pd.DataFrame(rows, columns=columns)
    metrics = {name: {"reduce": "sum", "lower_is_better": name not in higher} for name in finals}
    summary = {
        **{"policy": policy, "environment": "simulation", "rounds": ROUNDS, "replicas": REPLICAS},
        **{"seed": 0, "seconds": 1.0, "groups": list(groups), "versions": {}, "metrics": metrics},
        "config": {"policy": dict(config or {})},
        **changes,
    }
    run, grid = Run(Path(policy), summary), np.linspace(0, 1, 50)
    whole = table[table["measure"].isin([*finals])]
    curves = whole.loc[whole.index.repeat(len(STEPS))].assign(round=np.tile(STEPS, len(whole)))
    curves["value"] = curves["value"] * curves["round"] / STEPS[-1]
    densities = [1 + k * np.sin(3 * grid) for k in range(len(groups))]
    rewards = [pd.DataFrame({"value": grid, "density": own, "cdf": grid}) for own in densities]
    # which else are read from files
    run.__dict__.update(finals=table, curves=curves, rewards=tuple(rewards))
    return run


def around(mean: float, *noise: float) -> list[float]:
    """The values of four replicas."""
    return [mean + own for own in noise or (-1.5, -0.5, 0.5, 1.5)]


def scene_of(*runs: Run) -> Scene:
    """The runs in one scene."""
    (found,) = scenes_of(runs)
    return found


def crossed(
    policies: Sequence[str], groups: Sequence[str] = ("a", "b", "c"), **settings: Sequence[Any]
) -> Scene:
    """Runs of all combinations of policies and of settings of their estimators."""
    runs = []
    for number, (policy, *values) in enumerate(product(policies, *settings.values())):
        ends = {"standard_regret": 40.0 + 9 * number, "fair_regret": 30.0 + 20 * (number % 7)}
        finals = {column: around(end, -60, 0, 0, 60) for column, end in ends.items()}
        config = {"estimator": dict(zip(settings, values, strict=True))}
        runs.append(saved(policy, finals, groups, config))
    return scene_of(*runs)
