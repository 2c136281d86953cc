"""Simulated logs whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit import Agent, Engine
from fairbandit.environments import Environment, Pools
from fairbandit.logs import Log
from fairbandit.policy.build import build_policy
from fairbandit.selectors import Selection
from fairbandit.streams import Streams
from tests.evaluation.logs import rows

EXPLORING = {"name": "epsilon_greedy", "epsilon": 0.3}

LOGGERS: dict[str, dict[str, Any]] = {
    "uniform": {"name": "uniform"},
    "ε-greedy": {"split": "full", "estimator": "oracle", "rank": "identity", "selector": EXPLORING},
    "adaptive": {"name": "fair_greedy", "refresh": 1.1, "selector": EXPLORING},
    "drifting": {"split": "full", "estimator": "oracle", "rank": "oracle_cdf"},
    "argmax": {"name": "gmf"},
}
"""What decided. The drifting logger explores less and less, at times fixed beforehand."""

DRIFT = (0.9, 0.6, 0.4, 0.2)
"""ε in each quarter of the drifting logger's rounds."""


def logged(name: str, world: Environment, rounds: int, seed: int = 0) -> Log:
    """The log of a logger of some name."""
    return all_logged(name, world, rounds, [seed])[0]


def all_logged(name: str, world: Environment, rounds: int, seeds: Sequence[int]) -> list[Log]:
    """A log of each seed, played together."""
    config = LOGGERS[name]
    if name != "drifting":
        return played(config, world, rounds, seeds, adaptive=name == "adaptive")
    parts = []
    for number, epsilon in enumerate(DRIFT):
        explores = {**config, "selector": {**EXPLORING, "epsilon": epsilon}}
        parts.append(played(explores, world, rounds // len(DRIFT), seeds, number))
    return [one_after_the_other(own) for own in zip(*parts, strict=True)]


def one_after_the_other(logs: Sequence[Log]) -> Log:
    """Logs of pools of one size as one log."""
    arrays = [f.name for f in fields(Log) if isinstance(getattr(logs[0], f.name), np.ndarray)]
    parts: Any = {name: np.concatenate([getattr(one, name) for one in logs]) for name in arrays}
    return replace(logs[0], names=range(sum(map(len, logs))), **parts)


def played(
    config: dict[str, Any],
    world: Environment,
    rounds: int,
    seeds: Sequence[int],
    stream: int = 0,
    adaptive: bool = False,
) -> list[Log]:
    """The decisions of a policy in an environment, as a log of each replica of some numbers."""
    engine = Engine(build_policy(config), world, rounds=rounds, seed=stream, replicas=seeds)
    decide, pools, selections = engine._decide, list[Pools](), list[Selection]()

    def recorded(some: Pools, n_ready: int) -> Selection:
        pools.append(some)
        selections.append(decide(some, n_ready))
        return selections[-1]

    with patch.object(engine, "_decide", recorded):
        pieces = list(engine.play())
    of: dict[str, Any] = {"actions": pieces, "rewards": pieces, "propensities": pieces}
    of |= {"contexts": pools, "groups": pools, "inclusion": selections}
    whole = {
        name: torch.cat([getattr(part, name) for part in parts], 1).numpy()
        for name, parts in of.items()
    }
    return [
        Log(
            **rows(
                whole["groups"][row],
                contexts=whole["contexts"][row],
                probabilities=whole["inclusion"][row],
            ),
            labels=world.group_names,
            picks=whole["actions"][row, :, None],
            rewards=whole["rewards"][row, :, None],
            propensities=whole["propensities"][row, :, None],
            features=tuple(f"x{i}" for i in range(world.features)),
            names=range(rounds),
            adaptive=adaptive,
        )
        for row in range(len(seeds))
    ]


class Fresh(NamedTuple):
    """Pools that no log has, with what is true of each candidate, by measure: (n, K, d) and (n, K).

    `best` is the place of the candidate of the best true rank, and `means` what it gives on average
    over many more pools: trained policies mostly pick it, so that only the difference to it needs
    the pools.
    """

    contexts: NDArray[np.float64]
    groups: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]
    best: NDArray[np.int64]
    means: dict[str, float]


def fresh(world: Any, sets: int, count: int, total: int, seed: int = 10**6) -> list[Fresh]:
    """Some sets of pools from a seed of their own, with means over many more.

    Logs that are compared with one set share the errors of its truth, which would look like a bias.
    """
    world.bind(Streams(seed, [0]))
    drawn, means = list[tuple[Any, Any, Any, Any]](), dict[str, float]()
    for number in range(total // count):
        pools = world.pools(number * count + 1, count)
        values = {"reward": pools.expected[0].numpy(), "rank": pools.ranks[0].numpy()}
        best = values["rank"].argmax(1)[:, None]
        for name, of in values.items():
            of_best = np.take_along_axis(of, best, 1).mean()
            means[name] = means.get(name, 0.0) + float(of_best) * count / total
        if number < sets:
            contexts, groups = pools.contexts[0].numpy(), pools.groups[0].numpy()
            drawn.append((contexts, groups, values, best))
    return [Fresh(*parts, means) for parts in drawn]


def truth(agent: Agent, world: Environment, pools: Fresh) -> dict[str, float]:
    """What a frozen agent gives on average, for each measure."""
    chances = agent.probabilities(pools.contexts, pools.groups, world.group_names)
    found = dict[str, float]()
    for name, of in pools.values.items():
        gain = (chances * of).sum(1) - np.take_along_axis(of, pools.best, 1)[:, 0]
        found[name] = pools.means[name] + float(gain.mean())
    return found | {"fair_regret": pools.means["rank"] - found["rank"]}
