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

from fairbandit.building import build_policy
from fairbandit.conformance import Scattered
from fairbandit.environments import Environment
from tests import support
from tests.agent import worlds
from tests.test_ties import LASTING, Categories, table

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
    ("name", "place", "picks", "rounds"), [c for c in CASES if c[0] not in SLOW]
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
    pools = worlds.pools_of(world, rounds, SEED)
    online = worlds.play(worlds.agent_for(world, POLICIES[name], SEED), pools, picks=picks)
    assert online == many[0].view(rounds, -1).tolist()
