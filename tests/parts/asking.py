"""Rank estimators asked directly, about problems that are plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.parts import (
    Candidates,
    Division,
    Full,
    Halves,
    History,
    LinearModel,
    Outcomes,
    Problem,
    Rank,
    Split,
)
from fairbandit.streams import Purpose, Streams

Array = NDArray[np.float64]

SPLITS: dict[str, type[Split]] = {"halves": Halves, "full": Full}


@dataclass
class World:
    """Pools, reward models and rewards, drawn once.

    Attributes:
        contexts: (B, T, K, d).
        groups: (B, T, K), −1 an empty place.
        theta: the model of each round, (B, T, d).
        rewards: of the picks, (B, T); round t picks the first candidate that is present.
    """

    contexts: Tensor
    groups: Tensor
    theta: Tensor
    rewards: Tensor

    @property
    def picks(self) -> Tensor:
        """The place picked in each round, (B, T)."""
        return (self.groups >= 0).to(torch.uint8).argmax(2)


def world(
    contexts: Tensor, groups: Tensor, theta: Tensor | None = None, rewards: Tensor | None = None
) -> World:
    """A world, by default of one feature whose value is the score, without rewards."""
    b, t, _, d = contexts.shape
    theta = torch.ones(b, t, d, dtype=torch.float64) if theta is None else theta
    return World(contexts, groups, theta, torch.zeros(b, t) if rewards is None else rewards)


def awkward(seed: int, rounds: int = 24, integers: bool = False) -> World:
    """A small world of several groups, one rare, with empty places and a new model every round.

    Args:
        seed: of the draws.
        rounds: T.
        integers: contexts and models of small integers, so that many scores tie.
    """
    draws = np.random.default_rng(seed)
    b, k, d = 2, 5, 3
    size, rough = (b, rounds, k, d), draws.integers
    contexts = rough(-2, 3, size).astype(float) if integers else draws.normal(size=size)
    groups = draws.choice([-1, 0, 1, 2], size=(b, rounds, k), p=[0.1, 0.5, 0.3, 0.1])
    groups[:, :, 0] = draws.integers(0, 2, (b, rounds))
    theta = rough(-2, 3, size).astype(float) if integers else draws.normal(size=size)
    theta = theta[:, :, 0]
    rewards = draws.normal(size=(b, rounds))
    parts = (torch.from_numpy(part) for part in (contexts, groups, theta, rewards))
    return World(*parts)


def ask(
    rank: Rank, given: World, last: int = 1, split: str = "full", blocks: Sequence[int] = ()
) -> tuple[Tensor, Candidates]:
    """The index of the last rounds of a world, asked about together.

    Args:
        rank: not bound yet.
        given: the world.
        last: how many of its rounds to ask about.
        split: `full` or `halves`.
        blocks: where to cut the rounds before them in blocks.

    Returns:
        The index, (B, last, K), and the candidates it is of.
    """
    b, rounds, _, d = given.contexts.shape
    made = SPLITS[split]()
    problem = Problem(d, int(given.groups.max()) + 1, Streams(5, range(b)))
    for part in (made, rank):
        part.bind(problem)
    history = History(problem, rank.needs, memory=rank.memory)
    history.add_pools(given.contexts, given.groups)
    picks = given.picks[..., None]
    outcomes = Outcomes(
        given.contexts.take_along_dim(picks[..., None], 2)[:, :, 0],
        given.groups.take_along_dim(picks, 2)[:, :, 0],
        given.rewards,
    )
    history.add_outcomes(1, outcomes)
    start = rounds - last
    cuts = [0, *blocks, start]
    for low, high in pairwise(cuts):
        if high > low:
            rank.observe(low + 1, given.contexts[:, low:high], given.groups[:, low:high])
    asked = Candidates(
        start + 1,
        made.divide(torch.arange(start + 1, rounds + 1)),
        given.contexts[:, start:],
        given.groups[:, start:],
        LinearModel(given.theta[:, start:]),
        torch.arange(last),
        history,
        problem.streams[Purpose.RANK],
    )
    return rank.index(asked), asked


def window(given: World, b: int, round_: int, division: Division, at: int, group: int) -> Array:
    """The scores of a group's contexts in the window of a round, in order, by looking at each.

    Args:
        given: the world.
        b: the replica.
        round_: the round t, whose model scores.
        division: that of all rounds asked about.
        at: the position of the round among them.
        group: the group.
    """
    theta = given.theta[b, round_ - 1].numpy()
    start, stop = int(division.start[at]), int(division.stop[at])
    scores = [
        float(given.contexts[b, s - 1, a].numpy() @ theta)
        for s in range(start + 1, stop + 1)
        for a in range(given.groups.shape[2])
        if int(given.groups[b, s - 1, a]) == group
    ]
    return np.array(scores)
