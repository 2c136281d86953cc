"""The engine decides every round as the paper-literal loop does, fed the same draws."""

from itertools import cycle

import numpy as np
import pytest

from fairbandit.environments import Environment, Simulation, Table
from tests import literal, support

ROUNDS = 400


def truth_of(world: Environment) -> literal.Truth:
    """θ and the true CDF of each group: by quadrature, or by counting everyone."""
    if isinstance(world, Simulation):
        weights, offsets = world.weights, world.offsets
        return literal.Truth(
            np.array(world.theta),
            lambda g, value: support.weighted_uniforms_cdf(weights[g], offsets[g], value),
        )
    assert isinstance(world, Table)
    members = world.members
    rewards = [members.expected[members.groups == g].numpy() for g in range(len(world.group_names))]
    # the true CDF is asked at ceilings, and a member's own reward is no rounding away from them
    return literal.Truth(world.truth.linear_theta().numpy(), literal.ecdf(rewards))


def equals_its_loop(
    name: str, world: Environment, seed: int, picks: int = 1, **estimator: float
) -> None:
    theirs = literal.play(
        name,
        support.draws(world, ROUNDS, seed),
        truth_of(world),
        picks=picks,
        **{"exploration": world.exploration, **estimator},
    )
    chosen = support.policy(name, **estimator)
    ours = support.actions(chosen, world, ROUNDS, seed=seed, picks=picks)
    found = ours[0].numpy()
    if picks > 1 and "cdf" in support.PRESETS[name]["rank"]:
        # by quadrature, a CDF is a few units in the last place off, and so may be the order
        found, theirs = np.sort(found, 1), np.sort(theirs, 1)
    np.testing.assert_array_equal(found, theirs)


@pytest.mark.parametrize("kind", support.KINDS)
@pytest.mark.parametrize("name", support.PRESETS)
def test_every_preset(name: str, kind: str) -> None:
    """In the census the same person is drawn twice, and equal scores do occur."""
    equals_its_loop(name, support.world_of(kind), seed=len(name + kind) % 5)


@pytest.mark.parametrize("noise", [0.1, 1.0])
@pytest.mark.parametrize("regularization", [1e-8, 10.0])
def test_fair_greedy_at_other_hyperparameters(noise: float, regularization: float) -> None:
    world = support.environment("simulation")
    equals_its_loop("fair_greedy", world, 5, noise=noise, regularization=regularization)


@pytest.mark.parametrize(
    ("name", "kind"), [*zip(support.PRESETS, cycle(["census_ethnicity", "simulation"]))]
)
def test_shortlists_of_every_preset(name: str, kind: str) -> None:
    equals_its_loop(name, support.world_of(kind), 3, picks=3)
