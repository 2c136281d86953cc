"""The environments and seeds in which policies are compared with literal loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit import Policy
from fairbandit.environments import Environment
from tests import literal, support

Loop = Callable[[literal.Draws, Environment, int], NDArray[np.int64]]
"""A policy as its source writes it: (draws, environment, seed) to every decision, (T,).

It reads plain numbers of the environment, such as `exploration` or `truth.theta`, and nothing else
of the package.
"""

ROUNDS = 400

KINDS = ("simulation", "census_gender", "census_ethnicity")

everywhere = pytest.mark.parametrize(
    ("kind", "seed"),
    [(kind, seed) for kind in KINDS for seed in (0, 1, 2)],
)
"""Runs a test on the simulation and on both census environments, with three seeds each."""


def world_of(kind: str, factory: pytest.TempPathFactory) -> Environment:
    """One of the three environments."""
    if kind == "simulation":
        return support.environment("simulation")
    return _census(kind)


_census = cache(support.census)  # reading records takes longer than 400 rounds


def equals_its_loop(policy: Policy, loop: Loop, world: Environment, seed: int) -> None:
    """Asserts that a policy decides every round as its literal loop does, fed the same draws."""
    ours = support.actions(policy, world, ROUNDS, seed=seed)
    theirs = loop(support.draws(world, ROUNDS, seed), world, seed)
    np.testing.assert_array_equal(ours[0].numpy(), theirs)
