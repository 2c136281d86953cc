"""Simulated logs whose truth is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit import Agent, Engine
from fairbandit.environments import Environment
from fairbandit.logs import Log
from fairbandit.policy.build import build_policy
from fairbandit.streams import Streams
from tests.evaluation.logs import rows

DRIFT = np.array([0.9, 0.6, 0.4, 0.2])
"""ε in each quarter of the rounds of the logger that drifts."""

LOGGERS: dict[str, Any] = {
    "uniform": 1.0,
    "ε-greedy": 0.3,
    "adaptive": 0.3,
    "drifting": DRIFT,
    "argmax": 0.0,
}
"""The exploration ε of each logger; `drifting` explores less and less, at times fixed beforehand.

`adaptive` learns fairly; the others know the truth, and pick the best mean reward or, if they are
`drifting` or `argmax`, the best true rank."""


def logged(name: str, world: Environment, rounds: int, seed: int = 0) -> Log:
    """The log of a logger of some name, in one replica of a world."""
    streams, draws = Streams(0, [seed]), np.random.default_rng(seed)
    with world.bound(streams):
        pools = world.pools(1, rounds)
    contexts, groups, rewards = (
        values[0].numpy() for values in (pools.contexts, pools.groups, pools.rewards)
    )
    if name == "adaptive":
        selector = {"name": "epsilon_greedy", "epsilon": LOGGERS[name]}
        policy = build_policy({"name": "fair_greedy", "refresh": 1.1, "selector": selector})
        played = [*Engine(policy, world, rounds=rounds, seed=0, replicas=[seed]).play()]
        picks, p = (
            np.concatenate([getattr(piece, key)[0].numpy() for piece in played])[:, None]
            for key in ("actions", "propensities")
        )
        probabilities = None
    else:
        merit = pools.ranks if name in ("drifting", "argmax") else pools.expected
        epsilon = np.repeat(LOGGERS[name], rounds // np.size(LOGGERS[name]))[:, None]
        probabilities = np.broadcast_to(epsilon / groups.shape[1], groups.shape).copy()
        probabilities[np.arange(rounds), merit[0].numpy().argmax(1)] += 1 - epsilon[:, 0]
        picks = (draws.random((rounds, 1)) < probabilities.cumsum(1)).argmax(1)[:, None]
        p = np.take_along_axis(probabilities, picks, 1)
    return Log(
        **rows(groups, contexts=contexts, probabilities=probabilities),
        labels=world.group_names,
        picks=picks,
        rewards=np.take_along_axis(rewards, picks, 1),
        propensities=p,
        features=tuple(f"x{i}" for i in range(world.features)),
        names=range(rounds),
        adaptive=name == "adaptive",
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


def fresh(world: Any, sets: int, count: int, total: int, seed: int = 10**6) -> list[Fresh]:
    """Some sets of pools from a seed of their own, with means over many more.

    Logs that are compared with one set share the errors of its truth, which would look like a bias.
    """
    drawn, means = list[tuple[Any, Any, Any, Any]](), dict[str, float]()
    streams = Streams(seed, [0])
    for number in range(total // count):
        with world.bound(streams):
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
