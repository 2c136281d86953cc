"""Decisions do not depend on how they are made, exact ties included.

A policy decides alike in blocks and round by round, alone and among others, on one thread and on
two, in a simulation and online. Each policy is played in all of these ways; worlds and numbers of
picks take turns, so that pairs of factors are covered and not their product. That every part does
is checked by `fairbandit.conformance`, and that processors agree by `tests/test_processors.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from fairbandit import Engine, FairbanditError
from fairbandit.conformance import Scattered
from fairbandit.environments import Environment
from fairbandit.policy.build import build_policy
from tests import support
from tests.agent import worlds
from tests.estimators.test_ties import LASTING, Categories, table

REPLICAS, SEED = 4, 4


def small_table() -> Environment:
    with TemporaryDirectory() as folder:
        return table(Path(folder))


TIES: dict[str, Callable[[], Environment]] = {
    "categories": Categories,
    "table": cache(small_table),
    "coarse": worlds.Coarse,
}
"""Worlds in which scores tie."""

WORLDS = {
    **TIES,
    "empty places": lambda: Scattered(rare_after=30),
    "simulation": support.environment,
}

POLICIES: dict[str, dict[str, Any]] = {**support.PRESETS, **support.NOTIONS, **LASTING}

PICKS = cycle([1, 3, 1, 6])


def tied(name: str, place: str) -> str:
    """A world with ties; a policy that needs a truth gets the one that has a truth."""
    return "coarse" if "truth" in build_policy(POLICIES[name]).needs else place


CASES = [
    *((name, tied(name, place), next(PICKS), 50) for name, place in zip(POLICIES, cycle(TIES))),
    *((name, place, next(PICKS), 264) for name, place in zip(support.PRESETS, cycle(WORLDS))),
]
"""The policies of the paper are also played through more rounds than a chunk has."""

SLOW = {"order_greedy"}
"""Policies that tests/estimators/test_orders.py plays in all ways."""


@pytest.mark.parametrize(
    ("name", "place", "picks", "rounds"), support.some((c for c in CASES if c[0] not in SLOW), 2)
)
def test_decisions_are_the_same_however_they_are_made(
    name: str, place: str, picks: int, rounds: int
) -> None:
    """Places that are empty in the simulation are not there online, and draw nothing there."""
    make: Callable[[], Environment] = WORLDS[place]
    policy, world = build_policy(POLICIES[name]), make()
    how: dict[str, Any] = {"seed": SEED, "picks": picks}
    many = support.actions(policy, world, rounds, REPLICAS, **how)
    alone = support.actions(policy, world, rounds, [REPLICAS - 1], at_once=1, **how)
    assert torch.equal(alone, many[-1:])
    torch.set_num_threads(2)
    try:
        assert torch.equal(support.actions(policy, world, rounds, REPLICAS, at_once=7, **how), many)
    finally:
        torch.set_num_threads(1)
    if "truth" in policy.needs:  # an agent knows no truth
        return
    pools = worlds.pools_of(world, rounds, SEED)
    online = worlds.play(worlds.agent_for(world, POLICIES[name], SEED), pools, picks=picks)
    assert online == many[0].view(rounds, -1).tolist()


def test_engines_that_share_an_environment_play_their_own_pools():
    """Whichever was made last, and with other replicas in turns."""
    world = support.environment("simulation")
    policy = build_policy("fair_greedy")

    def engine(seed: int, count: int) -> Engine:
        return Engine(policy, world, rounds=150, seed=seed, replicas=range(count))

    alone = [torch.cat([piece.actions for piece in engine(seed, 2).play()], 1) for seed in (0, 1)]
    pairs = zip(*(engine(seed, 2).play() for seed in (0, 1)), strict=True)
    for want, pieces in zip(alone, zip(*pairs, strict=True), strict=True):
        assert torch.cat([piece.actions for piece in pieces], 1).equal(want)
    first, _ = engine(0, 2), engine(2, 3)
    assert torch.cat([piece.actions for piece in first.play()], 1).equal(alone[0])
    with pytest.raises(FairbanditError, match="all 150 rounds are played"):
        next(first.play())
