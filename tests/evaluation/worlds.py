"""Simulated logs whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit import Agent, Engine
from fairbandit.building import build_policy
from fairbandit.environments import Environment, Pools
from fairbandit.logs import Log
from fairbandit.selectors import Selection
from fairbandit.streams import Streams

EXPLORING = {"name": "epsilon_greedy", "epsilon": 0.3}

LOGGERS: dict[str, dict[str, Any]] = {
    "uniform": {"name": "uniform"},
    "ε-greedy": {"split": "full", "estimator": "oracle", "rank": "identity", "selector": EXPLORING},
    "adaptive": {**{"name": "fair_greedy"}, "selector": EXPLORING},
    "drifting": {"split": "full", "estimator": "oracle", "rank": "oracle_cdf"},
    "argmax": {"name": "gmf"},
}
"""What decided. The drifting logger explores less and less, at times fixed beforehand."""

DRIFT = (0.9, 0.5, 0.2)
"""ε in each third of the drifting logger's rounds."""


def logged(name: str, world: Environment, rounds: int, seed: int) -> Log:
    """The log of a logger of some name."""
    config = LOGGERS[name]
    if name != "drifting":
        return played(config, world, rounds, seed, adaptive=name == "adaptive")
    logs = [
        played(
            {**config, "selector": {"name": "epsilon_greedy", "epsilon": epsilon}},
            world,
            len(part),
            1_000 * seed + number,
        )
        for number, (epsilon, part) in enumerate(
            zip(DRIFT, np.array_split(np.arange(rounds), len(DRIFT)), strict=True)
        )
    ]
    return Log.joined(logs)


def played(
    config: dict[str, Any], world: Environment, rounds: int, seed: int, adaptive: bool = False
) -> Log:
    """The decisions of a policy in an environment, as a log."""
    engine = Engine(build_policy(config), world, rounds=rounds, seed=seed, replicas=[0])
    decide, pools, chances = engine._decide, list[Pools](), list[torch.Tensor]()

    def recorded(some: Pools, n_ready: int) -> Selection:
        selection = decide(some, n_ready)
        pools.append(some)
        chances.append(selection.probabilities[0])
        return selection

    with patch.object(engine, "_decide", recorded):
        pieces = list(engine.play())
    actions, rewards, propensities = (
        torch.cat([getattr(piece, part) for piece in pieces], 1)[0].numpy()[:, None]
        for part in ("actions", "rewards", "propensities")
    )
    contexts, groups = (
        torch.cat([getattr(some, part) for some in pools], 1)[0].numpy()
        for part in ("contexts", "groups")
    )
    return Log(
        groups=groups,
        labels=world.group_names,
        picks=actions,
        rewards=rewards,
        propensities=propensities,
        contexts=contexts,
        probabilities=torch.cat(chances).numpy(),
        features=tuple(f"x{i}" for i in range(contexts.shape[2])),
        names=range(rounds),
        adaptive=adaptive,
    )


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


def fresh(world: Environment, count: int, more: int = 50, seed: int = 10**6) -> Fresh:
    """Pools of a seed of their own, and so many times more for the means.

    The rewards that `win` compares with are those of all of them: an error of the truth would be
    that of every log.
    """
    world.bind(Streams(seed, [0]))
    pools = world.pools(1, count)
    groups = pools.groups[0].numpy()
    rewards = list[list[torch.Tensor]]([] for _ in world.group_names)
    for number in range(1, more + 1):
        some = world.pools(number * count + 1, count)
        for group, kept in enumerate(rewards):
            kept.append(some.rewards[some.groups == group])
    ordered = [torch.cat(kept).sort().values.numpy() for kept in rewards]
    totals: dict[str, float] = dict.fromkeys(("reward", "rank", "win"), 0.0)
    for number in range(1, more + 1):
        some = world.pools(number * count + 1, count)
        values, best = _values(some, ordered)
        for name, of in values.items():
            totals[name] += float(np.take_along_axis(of, best, 1).mean()) / more
    return Fresh(pools.contexts[0].numpy(), groups, *_values(pools, ordered), totals)


def _values(
    pools: Pools, rewards: Sequence[NDArray[np.float64]]
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """What each candidate gives, by measure, and the place of the one of the best true rank.

    Of `win`, that is the share of a sample of its group's rewards that are below its own.
    """
    noisy, groups = pools.rewards[0].numpy(), pools.groups[0].numpy()
    above = np.zeros_like(noisy)
    for group, sample in enumerate(rewards):
        here = groups == group
        below = sum(np.searchsorted(sample, noisy[here], side) for side in ("left", "right"))
        above[here] = below / 2 / len(sample)
    ranks = pools.ranks[0].numpy()
    values = {"reward": pools.expected[0].numpy(), "rank": ranks, "win": above}
    return values, ranks.argmax(1)[:, None]


def truth(agent: Agent, world: Environment, pools: Fresh) -> dict[str, float]:
    """What a frozen agent gives on average, for each measure."""
    chances = agent.probabilities(pools.contexts, pools.groups, world.group_names)
    found = {
        name: pools.means[name]
        + float(((chances * of).sum(1) - np.take_along_axis(of, pools.best, 1)[:, 0]).mean())
        for name, of in pools.values.items()
    }
    return {**found, "fair_regret": pools.means["rank"] - found["rank"]}
