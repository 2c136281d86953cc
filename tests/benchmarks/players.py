"""Agents that take one pool at a time: ours, and those of the libraries one would pick instead."""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairbandit import Agent
from fairbandit.environments.base import Pools

Array = NDArray[Any]

STRETCH = 50
"""Rounds that one player plays before the next one's turn."""


class MissingError(Exception):
    """Something that a benchmark needs is not there; the message says what to do."""


class Player(Protocol):
    """Picks from a pool, and learns the reward of the pick."""

    def act(self, contexts: Array, groups: Array) -> int:
        """The place picked from a pool, (K, d) and (K,)."""

    def learn(self, reward: float) -> None:
        """Takes the reward of the last pick."""


class Ours:
    """`fairbandit.Agent`."""

    name = "Agent"

    def __init__(
        self, policy: str | Mapping[str, Any], features: int, groups: int, seed: int = 0
    ) -> None:
        self.agent = Agent.from_config(policy, features=features, groups=groups, seed=seed)

    def act(self, contexts: Array, groups: Array) -> int:
        decision = self.agent.act(contexts, groups)
        self._ticket = decision.ticket
        return decision.candidate

    def learn(self, reward: float) -> None:
        self.agent.update(reward, self._ticket)


class Vowpal:
    """Vowpal Wabbit's `--cb_explore_adf --squarecb`, at its fastest from Python.

    A pool is written as text by one template a line and parsed once; the parsed example predicts,
    takes its label, and learns.
    """

    name = "vowpalwabbit"

    def __init__(self, features: int, words: str = "--squarecb", seed: int = 0) -> None:
        workspace = library("vowpalwabbit").Workspace
        self.model = workspace(f"--cb_explore_adf --quiet {words}")
        self.line = "|f " + " ".join(f"{i}:%.6g" for i in range(features))
        self.draw = random.Random(seed).random

    def act(self, contexts: Array, groups: Array) -> int:
        self.example = self.model.parse([self.line % tuple(x) for x in contexts.tolist()])
        self.shares: list[float] = self.model.predict(self.example)
        self.action = self._sampled()
        return self.action

    def learn(self, reward: float) -> None:
        label = f"0:{-reward:.6g}:{self.shares[self.action]:.6g}"
        self.example[self.action].set_label_string(label)
        self.model.learn(self.example)
        self.model.finish_example(self.example)

    def _sampled(self) -> int:
        left = self.draw()
        for action, share in enumerate(self.shares):
            left -= share
            if left < 0:
                return action
        return len(self.shares) - 1


class VowpalText(Vowpal):
    """The same decisions, with text as Vowpal Wabbit's tutorials write it, parsed twice."""

    name = "vowpalwabbit by its tutorials"

    def act(self, contexts: Array, groups: Array) -> int:
        pairs = ([f"{i}:{value:.6g}" for i, value in enumerate(x)] for x in contexts.tolist())
        self.lines = [f"|f {' '.join(words)}" for words in pairs]
        self.shares = self.model.predict(self.lines)
        self.action = self._sampled()
        return self.action

    def learn(self, reward: float) -> None:
        label = f"0:{-reward:.6g}:{self.shares[self.action]:.6g}"
        self.lines[self.action] = f"{label} {self.lines[self.action]}"
        self.model.learn(self.lines)


class LinUcb:
    """mabwiser's LinUCB: an arm a place, each with a model of its own that sees its own context.

    mabwiser gives all arms one context, so all contexts go in as a batch, and of each arm's
    expectations the one for its own context counts.
    """

    name = "mabwiser LinUCB"

    def __init__(self, features: int, places: int) -> None:
        module = library("mabwiser.mab")
        self.model = module.MAB(list(range(places)), module.LearningPolicy.LinUCB(), seed=0)
        self.model.fit([0], [0.0], np.zeros((1, features)))

    def act(self, contexts: Array, groups: Array) -> int:
        expected = self.model.predict_expectations(contexts)
        self.action = max(range(len(expected)), key=lambda place: expected[place][place])
        self.context = contexts[self.action : self.action + 1]
        return self.action

    def learn(self, reward: float) -> None:
        self.model.partial_fit([self.action], [reward], self.context)


def library(name: str, extra: str = "bench") -> Any:
    """A module of a package that an extra of this project brings."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingError(f"not installed: pip install '.[{extra}]'") from None


def pace(players: Sequence[Player], pools: Pools) -> list[list[float]]:
    """Seconds of each round, act and learn, for players that take turns on the same pools."""
    arrays = (part[0].numpy() for part in (pools.contexts, pools.groups, pools.rewards))
    rounds = list(zip(*arrays, strict=True))
    taken: list[list[float]] = [[] for _ in players]
    for low in range(0, len(rounds), STRETCH):
        for player, times in zip(players, taken, strict=True):
            for contexts, groups, rewards in rounds[low : low + STRETCH]:
                start = time.perf_counter()
                player.learn(float(rewards[player.act(contexts, groups)]))
                times.append(time.perf_counter() - start)
    return taken
