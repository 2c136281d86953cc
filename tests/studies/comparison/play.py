"""The worlds, and one loop in which every learner plays the same pools with the same noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import torch

from fairbandit.environments import Environment
from fairbandit.environments.base import Pools
from fairbandit.streams import Streams
from tests import support
from tests.benchmarks.players import Array, Player
from tests.benchmarks.worlds import built
from tests.studies.comparison.learners import (
    LEARNERS,
    PRODUCTS,
    SWITCH,
    Learner,
    Range,
    Settings,
    Shape,
)
from tests.studies.comparison.players import widened
from tests.studies.law import law_school

ROUNDS = 2000
SEEDS = range(20)
TUNING_SEEDS = range(1000, 1004)


@dataclass(frozen=True)
class World:
    """A problem, whose config may be made on demand, and whether its rewards are not linear.

    If they are not, products are offered to all learners, and networks play, too.
    """

    title: str
    config: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(repr=False)
    nonlinear: bool = False

    @property
    def learners(self) -> dict[str, Learner]:
        """The learners that play in this world, by name."""
        return {name: one for name, one in LEARNERS.items() if self.nonlinear or not one.network}

    def environment(self) -> Environment:
        """The problem; a `MissingError` where its data are not installed."""
        config = self.config() if callable(self.config) else self.config
        return _environment(tuple(config.items()))

    def space(self, learner: Learner) -> dict[str, Range]:
        """What a learner is tuned over here."""
        offered = {PRODUCTS: SWITCH} if self.nonlinear and learner.products else {}
        return {**learner.space, **offered}


WORLDS: dict[str, World] = {
    "simulation": World("The paper's simulation", {"name": "simulation"}),
    "census": World("The census sample", {"name": "census_ethnicity", "root": "sample"}),
    "law": World("Law school", law_school),
    "quadratic": World(
        "Quadratic rewards", {"name": "synthetic", "link": "quadratic"}, nonlinear=True
    ),
    "network": World(
        "Rewards of a network", {"name": "synthetic", "link": "network"}, nonlinear=True
    ),
}


@cache  # encoding a table takes seconds
def _environment(config: tuple[tuple[str, Any], ...]) -> Environment:
    return built(dict(config))


class Widened(Environment):
    """An environment whose contexts have all products of two features too."""

    def __init__(self, base: Environment) -> None:
        self.base, self.places, self.group_names = base, base.places, base.group_names
        self.features = widened(np.zeros((1, base.features))).shape[1]
        self.truth = None  # that of the base reads its own features

    def bind(self, streams: Streams) -> None:
        super().bind(streams)
        self.base.bind(streams)

    def _pools(self, first: int, count: int) -> Pools:
        pools = self.base.pools(first, count)
        return replace(pools, contexts=torch.from_numpy(widened(pools.contexts.numpy())))


def drawn(environment: Environment, rounds: int, seed: int) -> Pools:
    """The pools of a seed, with one noisy reward for each candidate."""
    environment.bind(Streams(seed, [0]))
    return environment.pools(1, rounds)


def shape(environment: Environment, rewards: tuple[float, float], seed: int) -> Shape:
    """What a player is made for."""
    sizes = environment.features, environment.places, len(environment.group_names)
    return Shape(*sizes, *rewards, seed)


def play(player: Player, pools: Pools) -> tuple[Array, float]:
    """The picks of a player, (T,), and its seconds of processor time to act and to learn."""
    contexts, groups, rewards = (
        part[0].numpy() for part in (pools.contexts, pools.groups, pools.rewards)
    )
    picks, start = np.empty(len(rewards), int), time.process_time()
    for t, gains in enumerate(rewards):
        picks[t] = player.act(contexts[t], groups[t])
        player.learn(float(gains[picks[t]]))
    return picks, time.process_time() - start


def picks(
    learner: Learner,
    settings: Settings,
    environment: Environment,
    rewards: tuple[float, float],
    pools: Pools,
    seed: int,
) -> Array:
    """The picks that `play` gives, (T,); those of a policy of ours are decided in blocks."""
    if learner.config is None:
        return play(learner.make(shape(environment, rewards, seed), settings), pools)[0]
    rounds = pools.groups.shape[1]
    world = Widened(environment) if settings.get(PRODUCTS) else environment
    return support.actions(learner.policy(settings), world, rounds, seed=seed)[0].numpy()


def regrets(pools: Pools, picks: Array) -> dict[str, Array]:
    """Standard and fair regret of each round, (T,), from true rewards and true ranks."""
    found = {}
    for name, part in (("standard", pools.expected), ("fair", pools.ranks)):
        values = part[0].numpy()
        found[name] = values.max(1) - values[np.arange(len(picks)), picks]
    return found
