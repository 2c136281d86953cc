"""The engine decides every round as the paper-literal loop does, fed the same draws."""

import numpy as np
import pytest

from fairbandit.environments import Simulation
from tests import literal, support


def simulation_truth(world: Simulation) -> literal.Truth:
    def cdf(group: int, value: float) -> float:
        return support.weighted_uniforms_cdf(world.weights[group], world.offsets[group], value)

    return literal.Truth(np.array(world.theta), cdf)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", support.PRESETS)
def test_simulation(name: str, seed: int) -> None:
    rounds = 400
    world = support.environment("simulation")
    assert isinstance(world, Simulation)
    theirs = literal.play(name, support.draws(world, rounds, seed), simulation_truth(world))
    ours = support.actions(support.policy(name), world, rounds, seed=seed)
    np.testing.assert_array_equal(ours[0].numpy(), theirs)


@pytest.mark.parametrize("noise", [0.1, 1.0])
@pytest.mark.parametrize("regularization", [1e-8, 10.0])
def test_fair_greedy_at_other_hyperparameters(noise: float, regularization: float) -> None:
    rounds = 400
    world = support.environment("simulation")
    assert isinstance(world, Simulation)
    theirs = literal.play(
        "fair_greedy",
        support.draws(world, rounds, 5),
        simulation_truth(world),
        noise=noise,
        regularization=regularization,
    )
    chosen = support.policy("fair_greedy", noise=noise, regularization=regularization)
    ours = support.actions(chosen, world, rounds, seed=5)
    np.testing.assert_array_equal(ours[0].numpy(), theirs)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", support.PRESETS)
@pytest.mark.parametrize("kind", ["census_gender", "census_ethnicity"])
def test_census(kind: str, name: str, seed: int) -> None:
    """Real records, where the same person is drawn twice and equal scores do occur."""
    rounds = 400
    world = support.census(kind)
    members = world.members
    rewards = [members.expected[members.groups == g].numpy() for g in range(len(world.group_names))]
    # the true CDF is asked at ceilings, and a member's own reward is no rounding away from them
    truth = literal.Truth(world.truth.linear_theta().numpy(), literal.ecdf(rewards))
    exploration = world.exploration
    theirs = literal.play(name, support.draws(world, rounds, seed), truth, exploration=exploration)
    ours = support.actions(support.policy(name), world, rounds, seed=seed)
    np.testing.assert_array_equal(ours[0].numpy(), theirs)
