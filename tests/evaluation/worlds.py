"""Simulated logs whose truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from fairbandit.tables.labels import normal
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


MOST = 2_000_000
"""The rewards that `win` compares with are those of so many pools."""


class Fresh(NamedTuple):
    """Pools that no log has, with what is true of each candidate, by measure: (n, K, d) and (n, K).

    `best` is the place of the candidate of the best true rank, and `means` what it gives on average
    over many more pools, also by group: trained policies mostly pick it, so that only the
    difference to it needs the pools. `candidates` is the mean number of each group in a pool.
    """

    contexts: NDArray[np.float64]
    groups: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]
    best: NDArray[np.int64]
    means: dict[str, float]
    candidates: NDArray[np.float64]


def fresh(world: Any, sets: int, count: int, total: int, seed: int = 10**6) -> list[Fresh]:
    """Some sets of pools from a seed of their own, with means over many more.

    Logs that are compared with one set share the errors of its truth, which would look like a bias.
    """
    world.bind(Streams(seed, [0]))
    pools, best = list[Pools](), list[list[torch.Tensor]]()
    rewards = list[list[torch.Tensor]]([] for _ in world.group_names)
    candidates = np.zeros(len(rewards))
    for number in range(total // count):
        some = world.pools(number * count + 1, count)
        place = some.ranks.argmax(2, keepdim=True)
        parts = (some.expected, some.ranks, some.groups)
        best.append([part.gather(2, place)[0, :, 0] for part in parts])
        candidates += [(some.groups == group).sum().item() / total for group in range(len(rewards))]
        if number * count < MOST:
            for group, own in enumerate(rewards):
                own.append(some.rewards[some.groups == group])
        if number < sets:
            pools.append(some)
    above = [_above(torch.cat(own).numpy(), world.noise) for own in rewards]
    expected, ranks, groups = (torch.cat(part).numpy() for part in zip(*best, strict=True))
    of_best = _by_group(_values(expected, ranks, groups, above), groups, ranks, len(above))
    means = {name: float(of.mean()) for name, of in of_best}
    found = []
    for some in pools:
        expected, ranks, groups = (p[0].numpy() for p in (some.expected, some.ranks, some.groups))
        values, place = _values(expected, ranks, groups, above), ranks.argmax(1)[:, None]
        found.append(Fresh(some.contexts[0].numpy(), groups, values, place, means, candidates))
    return found


def _above(
    rewards: NDArray[np.float64], noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The probability that a mean reward with normal noise is above one of the rewards, at points.

    It is E[F(x + noise·ξ)], by Gauss's quadrature for F, the CDF of the rewards.
    """
    rewards.sort()
    points = np.linspace(rewards[0], rewards[-1], 4_000)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    below = np.searchsorted(rewards, points[:, None] + noise * nodes) / len(rewards)
    return points, below @ weights / weights.sum()


def _values(
    expected: NDArray[np.float64],
    ranks: NDArray[np.float64],
    groups: NDArray[np.int64],
    above: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> dict[str, NDArray[np.float64]]:
    """What candidates give, by measure."""
    win = np.zeros_like(expected)
    for group, (points, shares) in enumerate(above):
        here = groups == group
        win[here] = np.interp(expected[here], points, shares)
    return {"reward": expected, "rank": ranks, "win": win}


def _by_group(
    values: dict[str, NDArray[np.float64]],
    groups: NDArray[np.int64],
    best: NDArray[np.float64],
    count: int,
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yields what candidates give, and the same for the candidates of each group alone."""
    for name, of in {**values, "best": best, "share": np.ones_like(best)}.items():
        yield name, of
        for group in range(count):
            yield f"{name}:{group}", of * (groups == group)


def truth(agent: Agent, world: Environment, pools: Fresh) -> dict[str, float]:
    """What a frozen agent gives on average, for each measure, also by group."""
    return ratios(totals(agent, world, pools), world)


def totals(agent: Agent, world: Environment, pools: Fresh) -> dict[str, float]:
    """Means over pools, of which those of several agents can be averaged."""
    chances = agent.probabilities(pools.contexts, pools.groups, world.group_names)
    count = len(world.group_names)
    best = np.take_along_axis(pools.values["rank"], pools.best, 1)
    found = {
        name: pools.means[name]
        + float(((chances * of).sum(1) - np.take_along_axis(of, pools.best, 1)[:, 0]).mean())
        for name, of in _by_group(pools.values, pools.groups, best + 0 * chances, count)
    }
    return {**found, **{f"candidates:{g}": float(n) for g, n in enumerate(pools.candidates)}}


def ratios(means: dict[str, float], world: Environment) -> dict[str, float]:
    """The measures of all picks and of each group, from means over pools."""
    found = {name: means[name] for name in ("reward", "rank", "win")}
    found["fair_regret"] = means["best"] - means["rank"]
    by = dict[str, list[float]]()
    for group, label in enumerate(map(normal, world.group_names)):
        share = means[f"share:{group}"]
        own = {name: means[f"{name}:{group}"] / share for name in ("reward", "rank", "win")}
        own |= {"share": share, "selection": share / means[f"candidates:{group}"]}
        own["fair_regret"] = means[f"best:{group}"] / share - own["rank"]
        for name, value in own.items():
            found[f"{name}:{label}"] = value
            by.setdefault(name, []).append(value)
    return found | {
        "selection_ratio": min(by["selection"]) / max(by["selection"]),
        "reward_gap": max(by["reward"]) - min(by["reward"]),
        "rank_gap": max(by["rank"]) - min(by["rank"]),
    }
