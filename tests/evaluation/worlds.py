"""Simulated logs whose truth is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit import Agent, Engine
from fairbandit.building import build_policy
from fairbandit.environments import Environment, Pools
from fairbandit.fixed_point import fixed_point  # noqa: F401 - see `played`
from fairbandit.logs import Log
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

    def recorded(some: Pools, n_ready: int) -> Any:
        selection = decide(some, n_ready)
        pools.append(some)
        chances.append(selection.probabilities[0])
        return selection

    engine._decide = recorded  # type: ignore[method-assign]
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
    """Pools that no log has, with what is true of them: (n, K, d) and (n, K).

    `best` is the mean of the best rank of a pool over many more pools.
    """

    contexts: NDArray[np.float64]
    groups: NDArray[np.int64]
    rewards: NDArray[np.float64]
    expected: NDArray[np.float64]
    ranks: NDArray[np.float64]
    best: float


def fresh(world: Environment, count: int, seed: int = 10**6) -> Fresh:
    """Pools of a seed of their own."""
    world.bind(Streams(seed, [0]))
    pools = world.pools(1, count)
    parts = (pools.contexts, pools.groups, pools.rewards, pools.expected, pools.ranks)
    best = world.pools(count + 1, 20 * count).ranks.amax(2).mean()
    return Fresh(*(part[0].numpy() for part in parts), float(best))


def truth(agent: Agent, world: Environment, pools: Fresh) -> dict[str, float]:
    """What a frozen agent gives on average, for each measure."""
    chances = agent.probabilities(pools.contexts, pools.groups, world.group_names)
    regret = float((pools.ranks.max(1) - (chances * pools.ranks).sum(1)).mean())
    above = np.zeros_like(pools.rewards)
    for group in range(len(world.group_names)):
        here = pools.groups == group
        values = np.sort(pools.rewards[here])
        low, high = (
            np.searchsorted(values, pools.rewards[here], side) for side in ("left", "right")
        )
        above[here] = (low + high) / 2 / max(len(values), 1)
    return {
        "reward": float((chances * pools.expected).sum(1).mean()),
        "rank": pools.best - regret,
        "fair_regret": regret,
        "win": float((chances * above).sum(1).mean()),
    }
