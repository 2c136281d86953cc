"""The environments and seeds in which policies are compared with literal loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairbandit import Policy
from fairbandit.environments import Environment
from tests import literal, support
from tests.literal import Array

ROUNDS = 250


@dataclass
class Past:
    """What a literal policy has seen and learned before round t.

    Attributes:
        t: the round.
        pools: contexts (t − 1, K, d) of past rounds.
        members: their groups, (t − 1, K).
        X: contexts of the picks, (n, d), of one or several in each of the t − 1 rounds.
        r: their rewards, (n,).
        of: their groups, (n,).
        when: their rounds, (n,).
        gamma: normal draws, a row for each number of rounds, (T, d).
        unseen: uniform draws for groups without a past, (K,).
        count: G.
    """

    t: int
    pools: Array
    members: NDArray[np.int64]
    X: Array
    r: Array
    of: NDArray[np.int64]
    when: NDArray[np.int64]
    gamma: Array
    unseen: Array
    count: int


Chances = Callable[[Past, Array, NDArray[np.int64]], "Array | Sequence[float]"]
"""A policy as its source writes it: (past, pool (K, d), groups (K,)) to K weights of the picks.

It reads plain numbers alone, and nothing of the package.
"""


def seen(draws: literal.Draws, t: int, picks: Sequence[Sequence[int]], count: int) -> Past:
    """What there is before round t, after the picks of each round."""
    when = np.array([s for s, places in enumerate(picks) for _ in places], dtype=np.int64)
    place = np.array([place for places in picks for place in places], dtype=np.int64)
    return Past(
        t,
        draws.contexts[: t - 1],
        draws.groups[: t - 1],
        draws.contexts[when, place],
        draws.rewards[when, place],
        draws.groups[when, place],
        when + 1,
        draws.gamma,
        draws.unseen[t - 1],
        count,
    )


def played(chances: Chances, draws: literal.Draws, count: int) -> NDArray[np.int64]:
    """Every decision, (T,): the first place whose cumulative weight exceeds the round's draw."""
    picks: list[list[int]] = []
    for t, (pool, groups) in enumerate(zip(draws.contexts, draws.groups, strict=True), 1):
        past = seen(draws, t, picks, count)
        cumulative = np.cumsum(np.asarray(chances(past, pool, groups)) * (groups >= 0))
        picks.append([int(np.argmax(cumulative > draws.ties[t - 1] * cumulative[-1]))])
    return np.array(picks)[:, 0]


def equals_its_loop(policy: Policy, chances: Chances, world: Environment, seed: int) -> None:
    """Asserts that a policy decides every round as its literal loop does, fed the same draws."""
    ours = support.actions(policy, world, ROUNDS, seed=seed)
    theirs = played(chances, support.draws(world, ROUNDS, seed), len(world.group_names))
    np.testing.assert_array_equal(ours[0].numpy(), theirs)
