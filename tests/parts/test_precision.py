"""Rounding stays small: the kept inverse is one, and predictions are those of exact arithmetic."""

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Engine, Policy
from fairbandit.environments import Environment
from fairbandit.maths.picks import of_pick
from fairbandit.parts import Outcomes, Ridge
from fairbandit.streams import GRID
from tests import support
from tests.exact import EPS, exact_ridge, off_by

BOUND = 1e-6
"""The rounding that is allowed at λ = 0.1. A step to the next node adds at most about ε·κ(V) to a
prediction, relative to the largest: κ(V) is below 600·‖x‖²/λ, some 3e6 here, and there are 600."""


def played(
    chosen: Policy, world: Environment, rounds: int, nodes: list[int]
) -> tuple[dict[int, Tensor], Tensor, Tensor]:
    """θ (d,) as the policy had it at some nodes, and the picks and rewards it learned from."""
    seen: dict[int, Tensor] = {}
    models = chosen.estimator.models

    def watched(rounds: Tensor, n_train: Tensor, outcomes: Outcomes) -> Any:
        model, of_round = models(rounds, n_train, outcomes)
        for i, node in enumerate(sorted(set(n_train.tolist()))):
            if node in nodes:
                seen[node] = model.parameters[0][0, i].clone()
        return model, of_round

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chosen.estimator, "models", watched)
        actions = support.actions(chosen, world, rounds)
    pools = world.pools(1, rounds)
    return seen, of_pick(pools.contexts, actions)[0], of_pick(pools.rewards, actions)[0]


NODES = [2, 16, 60, 127, 129, 599]
"""Numbers of rounds learned from: fewer than features, beside a refresh, and many."""


class Errors(NamedTuple):
    """The largest errors of ⟨x, θ⟩ at any node, relative to the largest prediction where above 1.

    Attributes:
        learned: over contexts of later pools that are made of what was learned, ‖x‖_{V⁻¹} ≤ 1.
        every: over all contexts of later pools.
        certain: what `learned` is at most, by analysis.
        share: the largest share of what the error of any context is at most, by analysis.
    """

    learned: float
    every: float
    certain: float
    share: float


def largest_errors(world: Environment, name: str, regularization: float) -> Errors:
    chosen = support.policy(name, regularization=regularization, noise=0.0)
    seen, picks, rewards = played(chosen, world, 1200 if name == "fair_greedy" else 600, NODES)
    assert sorted(seen) == NODES
    x, r, root = picks.numpy(), rewards.numpy(), np.sqrt(regularization) * np.eye(world.features)
    learned = every = certain = share = 0.0
    for node, theta in zip(NODES, exact_ridge(x, r, regularization, NODES), strict=True):
        later = world.pools(node + 1, 400).contexts[0].flatten(0, 1).numpy()
        truth = later @ theta
        error, scale = np.abs(later @ (seen[node].numpy() - theta)), max(1.0, np.abs(truth).max())
        # a root is solved anew at each node; of the others, at most so many roundings add up
        bound = math.sqrt(GRID) * off_by(x[:node], r[:node], regularization, theta, later)
        factor = np.asarray(np.linalg.qr(np.vstack([x[:node], root]), mode="r"))
        known = (np.linalg.solve(factor.T, later.T) ** 2).sum(0) <= 1
        learned = max(learned, float(error[known].max(initial=0.0)) / scale)
        certain = max(certain, float(bound[known].max(initial=0.0)) / scale)
        every = max(every, float(error.max()) / scale)
        share = max(share, float((error / bound).max()))
    return Errors(learned, every, certain, share)


PLAYED = [
    *(("simulation", name) for name in ("greedy", "fair_greedy", "oful")),
    *product(("census_gender", "census_ethnicity"), ("greedy", "fair_greedy")),
]
"""Node by node, in blocks, and with the inverse asked for.

In the census features depend on each other linearly, and most rare categories were never picked.
"""


@pytest.mark.parametrize(("kind", "name"), PLAYED)
def test_predictions(kind: str, name: str) -> None:
    assert largest_errors(support.world_of(kind), name, 0.1).every < BOUND


@pytest.mark.parametrize(("kind", "name"), PLAYED)
def test_predictions_at_a_tiny_regularization(kind: str, name: str) -> None:
    """As good as roundings of the rows allow; from sums V and b they are up to 1,000 times worse.

    For what was learned, that is to many digits. For what was never learned it is not: rounding
    times residual is divided by λ, so that the census's predictions may be off by 1e-3 and more.
    """
    found = largest_errors(support.world_of(kind), name, 1e-8)
    assert found.share < 1
    assert found.learned <= found.certain < BOUND * 1e-3


def test_the_kept_inverse_is_one() -> None:
    """Each of at most 256 steps from a factorization rounds V⁻¹V by about ε·κ(V)."""
    rounds, chosen, world = 3000, support.policy("oful", regularization=0.1), support.environment()
    ridge = chosen.estimator
    assert isinstance(ridge, Ridge)
    kept, picks, rewards = 0, list[Tensor](), list[Tensor]()
    for piece in Engine(chosen, world, rounds=rounds, seed=1, replicas=[0]).play():
        state = ridge.state()
        kept += bool(state["goes_on"])
        condition = float(torch.linalg.cond(torch.as_tensor(state["V"])[0]))
        if state["goes_on"]:
            V, _ = support.ridge_sums(state)
            off = torch.as_tensor(state["inverse"]) @ V - torch.eye(V.shape[1], dtype=V.dtype)
            assert float(off.abs().max()) < GRID * EPS * condition
        assert condition < 1e6
        pools = world.pools(piece.first, piece.actions.shape[1])
        picks.append(of_pick(pools.contexts, piece.actions)[0])
        rewards.append(piece.rewards[0])
    assert kept > 8
    assert state["goes_on"]
    x, r = torch.cat(picks)[:-1].numpy(), torch.cat(rewards)[:-1].numpy()
    (theta,) = exact_ridge(x, r, 0.1, [rounds - 1])
    bound = GRID * EPS * condition * np.abs(theta).max()
    np.testing.assert_allclose(
        torch.as_tensor(state["theta"])[0].numpy(), theta, rtol=0, atol=bound
    )
