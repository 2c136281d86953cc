"""Pools to decide on, runs to compare with, and what an agent holds, for the tests of agents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit import Agent, registry
from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.policy.build import build_policy
from fairbandit.streams import Purpose, Streams
from fairbandit.tables.population import GroupedCdf
from tests import literal, support

Array = NDArray[Any]


class Coarse(Environment):
    """Three groups, one rare, and contexts of few small integers, so that scores tie often."""

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 3, 5, ("often", "seldom", "rare")
        theta = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
        sample = torch.arange(-8.0, 9.0, dtype=torch.float64)
        self.truth = Truth(theta, GroupedCdf([sample, sample + 1, sample / 2]))

    def _pools(self, first: int, count: int) -> Pools:
        assert self.truth is not None
        k, d = self.places, self.features
        drawn = self.streams[Purpose.POOLS].uniform(first, count, k * (d + 1))
        contexts = (drawn[..., : k * d].unflatten(-1, (k, d)) * 5).floor() - 2
        groups = (drawn[..., k * d :] > 0.6).long() + (drawn[..., k * d :] > 0.95).long()
        expected = contexts @ self.truth.theta
        rewards = expected + self.streams[Purpose.REWARDS].normal(first, count, k)
        return Pools(contexts, groups, rewards, expected, self.truth.cdf(groups, expected, groups))


def deployable(policies: dict[str, Any]) -> dict[str, Any]:
    """The policies that need no truth, which no agent knows."""
    return {
        name: given for name, given in policies.items() if "truth" not in build_policy(given).needs
    }


def every_part(split: str) -> dict[str, dict[str, Any]]:
    """Policies with each rank and each estimator that is registered."""
    parts = [("ridge", rank) for rank in registry.names("rank")]
    parts += [(estimator, "recent_cdf") for estimator in registry.names("estimator")]
    return {
        f"{split} {estimator} {rank}": support.playable(split, estimator, rank)
        for estimator, rank in parts
    }


def pools_of(world: Environment, rounds: int, seed: int) -> Pools:
    """The pools that replica 0 of a run meets."""
    world.bind(Streams(seed, [0]))
    return world.pools(1, rounds)


def agent_for(world: Environment, config: Any, seed: int, **options: Any) -> Agent:
    """An agent of the same problem as a run's."""
    return Agent.from_config(
        config,
        features=world.features,
        groups=len(world.group_names),
        seed=seed,
        exploration=world.exploration,
        **options,
    )


def play(agent: Agent, pools: Pools, picks: int = 1) -> list[list[int]]:
    """Decides each pool without its empty places, all rewards in time; −1 stands for no pick."""
    picked = []
    for x, groups, rewards in zip(
        pools.contexts[0], pools.groups[0], pools.rewards[0], strict=True
    ):
        here = (groups >= 0).nonzero()[:, 0]
        decision = agent.act(x[here], groups[here], picks=picks)
        places = here[list(decision.picks)]
        agent.update(rewards[places].tolist(), decision.ticket)
        picked.append(places.tolist() + [-1] * (picks - len(places)))
    return picked


def held(agent: Agent, log: bool = True) -> Any:
    """All that an agent holds, comparable; without the positions of its logs, if they are out."""
    saved = agent._saved()
    if not log:
        saved["workers"] = [worker[:-1] for worker in saved["workers"]]
    return comparable(saved)


def comparable(value: Any) -> Any:
    """Nested data in which tensors are their bytes, and numbers differ from truth values."""
    if isinstance(value, Tensor):
        return value.dtype, value.shape, value.numpy().tobytes()
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    return value, isinstance(value, bool)


def scores(agent: Agent) -> NDArray[np.float64]:
    """What the model of the next round makes of some contexts."""
    d = agent._ledger.state.history.problem.features
    pool = np.concatenate([np.eye(d), np.ones((1, d))])
    return agent.explain(pool, [agent.groups[0]] * (d + 1)).scores.numpy()


def spans(given: Stories, *ends: int) -> list[Stories]:
    """Some rounds and the next ones, each of which counts its rounds from 1."""
    parts = []
    for low, high in pairwise([0, *ends, len(given.labels)]):
        some = Stories(*(part[low:high] for part in vars(given).values()))
        some.comes = [comes - low for comes in some.comes]
        parts.append(some)
    return parts


@dataclass
class Stories:
    """Rounds as they may be online: pools of any size, and rewards that come when they come.

    Attributes:
        contexts: a pool a round, (K, d).
        labels: K of them.
        rewards: of every candidate, (K,).
        comes: after the decision of which round each reward comes; infinite for never.
    """

    contexts: list[Array]
    labels: list[list[Any]]
    rewards: list[Array]
    comes: list[float]


def stories(seed: int, rounds: int, d: int = 3, delay: float = 5.0) -> Stories:
    """Random ones, with labels of all kinds of which some appear late, and integer contexts."""
    draws = np.random.default_rng(seed)
    names = ["a", 7, ("x", 1), None, "ÿ", 2.5]
    contexts, labels, rewards, comes = [], [], [], []
    for t in range(1, rounds + 1):
        k = int(draws.integers(1, 7))
        rough = draws.integers(-2, 3, (k, d)).astype(float)
        contexts.append(rough if t % 3 else draws.normal(size=(k, d)))
        known = 1 + min(len(names) - 1, t // 12)
        labels.append([names[int(one)] for one in draws.integers(0, known, k)])
        rewards.append(contexts[-1].sum(1) + draws.normal(size=k))
        late = [0.0, float(draws.integers(1, 1 + int(delay) * 2)), math.inf]
        comes.append(t + float(draws.choice(late, p=[0.4, 0.5, 0.1])))
    return Stories(contexts, labels, rewards, comes)


def live(agent: Agent, given: Stories, order: np.random.Generator | None = None) -> list[int]:
    """Lives through the stories; rewards that come at the same time come in a random order."""
    order = order or np.random.default_rng(0)
    picked: list[int] = []
    tickets: list[int] = []
    for t, (x, labels) in enumerate(zip(given.contexts, given.labels, strict=True), 1):
        decision = agent.act(x, labels)
        picked.append(decision.candidate)
        tickets.append(decision.ticket)
        come = [s for s in range(t) if given.comes[s] == t]
        for s in order.permutation(come).tolist() if come else []:
            agent.update(given.rewards[s][picked[s]], tickets[s])
    return picked


def fair_greedy(given: Stories, seed: int, refresh: float | None = None) -> list[int]:
    """Fair-Greedy as it is written, where pools vary in size and rewards come late or never."""
    streams, d = Streams(seed, [0]), given.contexts[0].shape[1]
    rounds = len(given.contexts)
    gamma = streams[Purpose.ESTIMATOR].normal(1, rounds, d)[0].numpy()
    ties = streams[Purpose.SELECTOR].uniform(1, rounds, 1)[0, :, 0].numpy()
    places = sum(map(len, given.contexts))
    unseen = streams[Purpose.RANK].uniform(1, places, 1)[0, :, 0].numpy()
    picked: list[int] = []
    place = 0
    for t in range(1, rounds + 1):
        pool, labels = given.contexts[t - 1], given.labels[t - 1]
        half = (t - 1) // 2
        node = half if refresh is None else literal.refreshed(half, refresh)
        known = [s for s in range(node) if given.comes[s] < t]
        index = np.zeros(len(pool))
        if known:
            X = np.array([given.contexts[s][picked[s]] for s in known])
            r = np.array([given.rewards[s][picked[s]] for s in known])
            theta = literal.ridge(X, r, 0.1)[1] + literal.injected(gamma, node, 1e-8)
            for a, label in enumerate(labels):
                past = [
                    x
                    for s in range(half, t - 1)
                    for x, other in zip(given.contexts[s], given.labels[s], strict=True)
                    if other == label
                ]
                top = literal.scored(pool[a], theta)[1]
                share = [float(np.dot(x, theta)) <= top for x in past]
                index[a] = np.mean(share) if share else unseen[place + a]
        picked.append(literal.pick(index, index, ties[t - 1]))
        place += len(pool)
    return picked
