"""Ranks and selectors asked directly, about problems that are plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.candidates import Candidates
from fairbandit.estimators import Estimator, LinearModel
from fairbandit.part import Problem
from fairbandit.past import Outcomes
from fairbandit.policy import Policy
from fairbandit.ranks import Rank
from fairbandit.selectors import Argmax, Selection, Selector
from fairbandit.splits import Full, Halves, Split
from fairbandit.streams import Streams

Array = NDArray[np.float64]

SPLITS: dict[str, type[Split]] = {"halves": Halves, "full": Full}


class Models(Estimator):
    """Models of given parameters θ, (B, T, d), one for each round."""

    draws_models = True

    def __init__(self, theta: Tensor) -> None:
        self.theta = theta

    def _models(
        self, problem: Any, state: Any, rounds: list[int], n_train: Any, outcomes: Any
    ) -> LinearModel:
        return LinearModel(self.theta[:, [t - 1 for t in rounds]])


class Shown(Rank):
    """A given index, with a tie ceiling and bounds."""

    def __init__(self, index: Tensor, ceiling: Tensor, bounds: Sequence[Tensor]) -> None:
        self.shown, self.ceiling, self.ends = index, ceiling, bounds

    def _index(self, candidates: Candidates) -> Tensor:
        return self.shown

    def _tie_ceiling(self, candidates: Candidates, index: Tensor) -> Tensor:
        return self.ceiling

    def _bounds(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        low, high = self.ends
        return low, high


def select(
    selector: Selector,
    index: Tensor,
    groups: Tensor | None = None,
    picks: Sequence[int] = (),
    ceiling: Tensor | None = None,
    bounds: Sequence[Tensor] = (),
) -> Selection:
    """The picks of the next rounds, each decided after the same past.

    Args:
        selector: decides.
        index: of each place, (B, N, K).
        groups: (B, N, K), −1 an empty place; by default all are of one.
        picks: the groups picked in the rounds before.
        ceiling: the tie ceiling, if it is not the index.
        bounds: of the index, if it has any.
    """
    b, n, k = index.shape
    groups = torch.zeros(b, n, k, dtype=torch.int64) if groups is None else groups.expand(b, n, k)
    first = len(picks) + 1
    rank = Shown(index, index if ceiling is None else ceiling, bounds)
    policy = Policy(Full(), Models(index.new_zeros(b, first + n, 1)), rank, selector)
    known = policy.init(Problem(1, max(int(groups.max()), 0) + 1, Streams(5, range(b))))
    contexts = index.new_zeros(b, n, k, 1)
    if picks:
        picked = torch.tensor([picks])
        past = known.past.with_pools(picked.new_zeros(1, first - 1, 1, 1), picked[..., None])
        known = policy.advance(known._replace(past=past), picked)
    return policy.propose(known, first, contexts, groups)


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


def world(contexts: Tensor, groups: Tensor) -> World:
    """A world of one feature whose value is the score, without rewards."""
    b, t, _, d = contexts.shape
    return World(contexts, groups, contexts.new_ones(b, t, d), contexts.new_zeros(b, t))


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
) -> Candidates:
    """The candidates of the last rounds of a world, asked about together.

    Args:
        rank: gives their index.
        given: the world.
        last: how many of its rounds to ask about.
        split: `full` or `halves`.
        blocks: where to cut the rounds before them in blocks.
    """
    b, rounds, _, d = given.contexts.shape
    policy = Policy(SPLITS[split](), Models(given.theta), rank, Argmax())
    known = policy.init(Problem(d, int(given.groups.max()) + 1, Streams(5, range(b))))
    picks, start = given.picks[..., None], rounds - last
    times = torch.arange(1, rounds + 1)
    x = given.contexts.take_along_dim(picks[..., None], 2)[:, :, 0]
    outcomes = Outcomes(times, x, given.groups.take_along_dim(picks, 2)[:, :, 0], given.rewards)
    for low, high in pairwise([0, *blocks, start, rounds]):
        pools = given.contexts[:, low:high], given.groups[:, low:high]
        known = known._replace(past=known.past.with_pools(*pools))
        some = outcomes.rows(low, high)
        known = policy.advance(known, some.groups) if high <= start else known
        known = policy.tell(known, some)
    return policy.candidates(known, start + 1, *pools)


def window(given: World, b: int, asked: Candidates, at: int, group: int) -> Array:
    """The scores of a group's contexts in the window of a round, in order, by looking at each.

    Args:
        given: the world.
        b: the replica.
        asked: the rounds asked about.
        at: the position of the round among them, whose model scores.
        group: the group.
    """
    theta = given.theta[b, asked.rounds[at] - 1].numpy()
    start, stop = (int(end[at]) for end in asked.rank_window)
    scores = [
        float(given.contexts[b, s - 1, a].numpy() @ theta)
        for s in range(start + 1, stop + 1)
        for a in range(given.groups.shape[2])
        if int(given.groups[b, s - 1, a]) == group
    ]
    return np.array(scores)
