"""Runs that nobody played, for figures of many runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.metrics import REGRETS
from fairbandit.results import Curve, RewardDistribution, SavedRun, Scene
from fairbandit.results.scenes import scenes_of
from tests import support

ROUNDS = 500


def saved(policy: str, groups: Sequence[str], config: Mapping[str, Any], number: int) -> SavedRun:
    """A run of three replicas, the worse the higher its number."""
    rounds = np.arange(1, ROUNDS + 1, 50)
    ends = {"standard": 40.0 + 9 * number, "fair": 30.0 + 20 * (number % 7)}
    spreads = {kind: {"mean": end, "std": end / 9, "n": 3} for kind, end in ends.items()}
    each = {group: 20.0 + 8 * (place + number % 3) for place, group in enumerate(groups)}
    summary = {
        **{"policy": policy, "environment": "simulation", "rounds": ROUNDS, "replicas": 3},
        **{"seed": 0, "seconds": 1.0, "groups": list(groups)},
        **{f"{kind}_pseudo_regret": spread for kind, spread in spreads.items()},
        "selected": {group: {"mean": count, "std": 9.0} for group, count in each.items()},
        "received": {group: {"mean": 5.0 * ROUNDS, "std": 9.0} for group in groups},
        "selection_rate": {g: {"mean": c / 100, "std": 0.09} for g, c in each.items()},
        "config": {"policy": {"estimator": dict(config)}},
    }
    run = SavedRun(Path(policy), summary)
    whole = np.full(len(rounds), 3.0)
    curves = {
        f"{kind}_regret": Curve(rounds, whole, end * rounds / ROUNDS, end * rounds / ROUNDS * 1.2)
        for kind, end in ends.items()
    }
    values = np.linspace(0, 1, 50)
    known = [
        RewardDistribution(values, 1 + place * np.sin(values * 3), values)
        for place in range(len(groups))
    ]
    # what is otherwise read of the run's files
    run.__dict__.update(curves=curves, rewards=tuple(known))
    return run


def crossed(
    policies: Sequence[str], groups: Sequence[str] = ("a", "b", "c"), **settings: Sequence[Any]
) -> Scene:
    """Runs of all combinations of policies and of settings of their estimators."""
    combinations = product(policies, *settings.values())
    runs = [
        saved(policy, groups, dict(zip(settings, values, strict=True)), number)
        for number, (policy, *values) in enumerate(combinations)
    ]
    (scene,) = scenes_of(runs)
    return scene


def judged(
    policy: str,
    ends: Mapping[str, float | None],
    higher: Sequence[str] = (),
    rounds: int = ROUNDS,
    **settings: Any,
) -> SavedRun:
    """A run of which only metrics are known: their means, of four replicas with a std of 1.

    Args:
        policy: a named one, of which it has the parts, or another, which knows no truth.
        ends: the means by column; both regrets are not known unless they are given.
        higher: the columns of which higher is better.
        rounds: T.
        settings: those that tell it from others of its policy.
    """
    parts = {**support.PRESETS, **support.NOTIONS}.get(policy, {})
    named = {
        kind: {"name": part} if isinstance(part, str) else part for kind, part in parts.items()
    }
    spreads = {
        column: {"mean": end, "std": None if end is None else 1.0, "n": 0 if end is None else 4}
        for column, end in {"standard_regret": None, "fair_regret": None, **ends}.items()
    }
    regrets = {REGRETS[column]: spreads.pop(column) for column in REGRETS}
    summary = {
        **{"policy": policy, "environment": "simulation", "rounds": rounds, "replicas": 4},
        **{"seed": 0, "groups": ["a", "b"], "config": {"policy": {**named, **settings}}, **regrets},
        "metrics": {
            column: {"reduce": "last", "lower_is_better": column not in higher, **spread}
            for column, spread in spreads.items()
        },
    }
    return SavedRun(Path(policy), summary)
