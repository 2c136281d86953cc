"""`lm:boundmu` and `lm:dwk` on runs of Fair-Greedy."""

import math

import pytest
import torch
from torch import Tensor

from fairbandit import Engine
from fairbandit.environments import Pools, Simulation
from fairbandit.maths.uniform_sum import uniform_sum_cdf
from fairbandit.metrics import of_pick
from fairbandit.streams import Purpose
from fairbandit.theory import cdf_radius, constants, ridge_radius
from tests import support

DELTA, REGULARIZATION, ROUNDS, REPLICAS = 0.2, 0.1, 200, 40


def play(noise: float) -> tuple[Simulation, Pools, Tensor, Tensor]:
    """The world and its pools, and the contexts and rewards of Fair-Greedy's picks."""
    world = support.environment()
    assert isinstance(world, Simulation)
    chosen = support.policy("fair_greedy", noise=noise, regularization=REGULARIZATION)
    engine = Engine(chosen, world, rounds=ROUNDS, seed=8, replicas=range(REPLICAS))
    actions = torch.cat([played.actions for played in engine.play()], 1)
    pools = world.pools(1, ROUNDS)
    return world, pools, of_pick(pools.contexts, actions), of_pick(pools.rewards, actions)


def models(
    world: Simulation, picked: Tensor, rewards: Tensor, noise: float
) -> tuple[Tensor, Tensor]:
    """μ_t̃ and V_t̃ for t̃ = 1 … T/2, by direct solves."""
    gamma = world.streams[Purpose.ESTIMATOR].normal(1, ROUNDS, world.features)
    products = (picked[..., :, None] * picked[..., None, :]).cumsum(1)
    gram = products + REGULARIZATION * torch.eye(world.features, dtype=torch.float64)
    targets = (picked * rewards[..., None]).cumsum(1)
    nodes = torch.arange(1, ROUNDS + 1, dtype=torch.float64)[:, None]
    theta = torch.linalg.solve(gram, targets) + noise / (world.features * nodes.sqrt()) * gamma
    return theta[:, : ROUNDS // 2], gram[:, : ROUNDS // 2]


@pytest.mark.parametrize("noise", [1e-8, 1.0])
def test_lm_boundmu_holds(noise: float) -> None:
    """In at least a share 1 − δ/4 of the replicas, for all t at once, within 4 standard errors."""
    world, _, picked, rewards = play(noise)
    theta, gram = models(world, picked, rewards, noise)
    assert world.oracle is not None
    off = world.oracle.theta - theta
    norms = (off[..., None, :] @ gram @ off[..., None])[..., 0, 0].sqrt()
    known = constants(world)
    radii = [ridge_radius(known, n, DELTA, REGULARIZATION) for n in range(1, ROUNDS // 2 + 1)]
    share = float((norms <= torch.tensor(radii)).all(1).double().mean())
    promised = 1 - DELTA / 4
    assert share >= promised - 4 * math.sqrt(promised * (1 - promised) / REPLICAS)
    # the radius is loose, but not by orders of magnitude
    assert float((norms / torch.tensor(radii)).max()) > 0.05


def test_lm_dwk_holds() -> None:
    """In at least a share 1 − δ of the replicas, for all groups and rounds 3, 10, … T at once."""
    world, pools, picked, rewards = play(noise=1e-8)
    theta, _ = models(world, picked, rewards, noise=1e-8)
    held = torch.ones(REPLICAS, dtype=torch.bool)
    largest = 0.0
    for t in range(3, ROUNDS + 1, 7):
        node = (t - 1) // 2
        model = theta[:, node - 1]
        scores = torch.einsum("bnkd,bd->bnk", pools.contexts[:, node : t - 1], model)
        radius = cdf_radius(t, ROUNDS, world.places, DELTA)
        gap = torch.stack([gaps(world, scores[b], model[b]) for b in range(REPLICAS)])
        held &= gap <= radius
        largest = max(largest, float(gap.max()) / radius)
    promised = 1 - DELTA
    assert float(held.double().mean()) >= promised - 4 * math.sqrt(
        promised * (1 - promised) / REPLICAS
    )
    assert largest > 0.3


def gaps(world: Simulation, scores: Tensor, model: Tensor) -> Tensor:
    """sup over groups and r of |F̂ − F|, F the exact law of ⟨μ, X_a⟩: largest at the steps of F̂."""
    count = len(scores)
    worst = torch.zeros((), dtype=torch.float64)
    for a in range(world.places):
        own = model[a * world.slice : (a + 1) * world.slice].tolist()
        offset = float(model[-1]) * world.bias * a
        steps = scores[:, a].sort().values
        true = uniform_sum_cdf(steps, own, offset)
        at = torch.arange(1, count + 1, dtype=torch.float64) / count
        worst = torch.maximum(
            worst, torch.maximum((at - true).abs(), (at - 1 / count - true).abs()).max()
        )
    return worst
