"""Discounted least squares beside a literal loop, without forgetting, and in every play."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import FairbanditError, build
from fairbandit.registry import create
from tests import support
from tests.literal import Array, scored
from tests.notions.worlds import Past, equals_its_loop

LAMBDA = 0.1


def discounted(past: Past, gamma: float) -> tuple[Array, Array, Array]:
    """V, b and Ṽ."""
    weights, penalty = gamma ** (past.t - 1 - past.when)[:, None], LAMBDA * np.eye(past.X.shape[1])
    weighted = weights * past.X
    return weighted.T @ past.X + penalty, weighted.T @ past.r, weighted.T @ weighted + penalty


def fair(past: Past, pool: Array, groups: Any, *, gamma: float, size: int) -> Array:
    """The share of the last contexts of the group that score no higher."""
    if past.t == 1:
        return np.ones(len(pool))
    V, b, _ = discounted(past, gamma)
    theta, index = np.linalg.solve(V, b), np.zeros(len(pool))
    for a, group in enumerate(groups):
        members = past.pools.reshape(-1, len(b))[past.members.reshape(-1) == group][-size:]
        top = scored(pool[a], theta)[1]
        index[a] = (members @ theta <= top).mean() if len(members) else past.unseen[a]
    return np.asarray(index >= index.max(), dtype=float)


def d_linucb(past: Past, pool: Array, groups: Any, *, gamma: float) -> Array:
    """⟨θ, x⟩ + β‖x‖ in the norm of V⁻¹ṼV⁻¹."""
    if past.t == 1:
        return np.ones(len(pool))
    V, b, tilde = discounted(past, gamma)
    theta, inverse = np.linalg.solve(V, b), np.linalg.inv(V)
    growth = np.linalg.slogdet(tilde)[1] - len(b) * np.log(LAMBDA)
    beta = math.sqrt(2 * max(growth, 0) * math.log(past.t))
    norm = np.sqrt(np.einsum("ki,ij,kj->k", pool, inverse @ tilde @ inverse, pool))
    pairs = [scored(x, theta, 0.1 * beta * one) for x, one in zip(pool, norm, strict=True)]
    score, tie = np.array(pairs).T
    return np.asarray(tie >= score.max(), dtype=float)


@pytest.mark.parametrize("kind", ["drifting", "census_gender"])
@pytest.mark.parametrize("gamma", [0.9, 0.995])
def test_it_equals_its_loop(kind: str, gamma: float) -> None:
    world = support.environment("synthetic", drift=1.5, period=200.0, drifts="weights")
    if kind != "drifting":
        world = support.world_of(kind)
    policy = support.policy("forgetting_greedy", discount=gamma)
    policy = support.replaced(policy, rank=create("rank", {"name": "recent_cdf", "size": 30}))
    equals_its_loop(policy, partial(fair, gamma=gamma, size=30), world, 1)
    estimator = {"name": "forgetting_ridge", "discount": gamma, "exploration": 0.1}
    optimist: Any = build({"split": "full", "estimator": estimator, "rank": "identity"})
    equals_its_loop(optimist, partial(d_linucb, gamma=gamma), world, 1)


@pytest.mark.parametrize(
    ("split", "exploration"), [("full", None), ("halves", 0.0), ("full", 0.3), ("halves", 0.3)]
)
def test_without_forgetting_it_is_optimistic_ridge(split: str, exploration: float | None) -> None:
    found = []
    for name, more in (("forgetting_ridge", {"discount": 1.0}), ("optimistic_ridge", {})):
        estimator = {"name": name, "exploration": exploration, **more}
        policy: Any = build({"split": split, "estimator": estimator, "rank": "empirical_cdf"})
        found.append(support.actions(policy, support.census("census_ethnicity"), 150, 2, picks=2))
    assert torch.equal(*found)


def test_with_exploration_there_are_bounds_around_the_scores() -> None:
    estimator = {"name": "forgetting_ridge", "discount": 0.9, "exploration": 0.5}
    parts = {"split": "full", "rank": "identity"}
    chain: Any = build({**parts, "estimator": estimator, "selector": "chain"})
    chosen = support.actions(chain, support.environment(), 60, 1)
    plain: Any = build({**parts, "estimator": estimator})
    assert not torch.equal(chosen, support.actions(plain, support.environment(), 60, 1))
    none = {**estimator, "exploration": 0.0}
    blind: Any = build({**parts, "estimator": none, "selector": "chain"})
    with pytest.raises(FairbanditError, match="has no confidence bounds"):
        support.actions(blind, support.environment(), 60, 1)


@pytest.mark.parametrize("discount", [0.0, 1.01, math.nan])
def test_discounts_out_of_range(discount: float) -> None:
    with pytest.raises(FairbanditError, match="discount"):
        create("estimator", {"name": "forgetting_ridge", "discount": discount})
