"""Estimators against the closed form, in blocks and one by one, alone and together."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators import Estimator, NoBounds
from fairbandit.history import Outcomes, Problem
from fairbandit.registry import create
from fairbandit.streams import Streams

D, N, G = 4, 30, 2


def problem(replicas: int = 3, groups: int = G, **given: Any) -> Problem:
    return Problem(features=D, groups=groups, streams=Streams(5, range(replicas)), **given)


def outcomes(replicas: int = 3, n: int = N, scale: float = 1.0) -> Outcomes:
    draws = torch.Generator().manual_seed(0)
    contexts = scale * torch.rand(3, n, D, generator=draws, dtype=torch.float64)
    rewards = torch.randn(3, n, generator=draws, dtype=torch.float64)
    groups = torch.arange(n).expand(3, n) % G
    return Outcomes(torch.arange(1, n + 1), *(x[:replicas] for x in (contexts, groups, rewards)))


def thetas(estimator: Estimator, state: Any, rest: Outcomes, at: list[int]) -> Tensor:
    """The first parameter of the models after some numbers of rounds, (B, U, ·)."""
    asked = problem(len(rest.rewards))
    return estimator._models(asked, state, [n + 1 for n in at], at, rest).parameters[0]


@pytest.mark.parametrize("radius", ["practical", "constant"])
def test_optimism_is_the_norm_times_the_radius(radius: str) -> None:
    estimator = create("estimator", {"name": "optimistic_ridge", "radius": radius})
    known = outcomes()
    asked = problem(exploration=0.5)
    model = estimator._models(asked, estimator.init(asked), [N + 1], [N], known)
    V = known.contexts.mT @ known.contexts + 0.1 * torch.eye(D, dtype=torch.float64)
    theta = torch.linalg.solve(V, known.contexts.mT @ known.rewards[..., None])
    growth = torch.logdet(V) - D * math.log(0.1)
    beta = (2 * growth).sqrt() * math.sqrt(math.log(N + 1))
    if radius == "constant":
        beta = torch.ones_like(beta)
    x = known.contexts[:, None]
    norm = (x[:, 0] @ torch.linalg.inv(V) * x[:, 0]).sum(-1).sqrt()
    middle, bonus = (x[:, 0] @ theta)[..., 0], 0.5 * beta[:, None] * norm
    groups = torch.zeros(3, 1, N, dtype=torch.int64)
    low, high = model.bounds(x, groups)
    torch.testing.assert_close(model.score(x, groups)[:, 0], middle + bonus)
    torch.testing.assert_close(low[:, 0], middle - bonus)
    torch.testing.assert_close(high[:, 0], middle + bonus)
    assert estimator.exploration is None


def test_models_without_bounds_say_so() -> None:
    estimator = create("estimator", "ridge")
    model = estimator._models(problem(), estimator.init(problem()), [2], [1], outcomes())
    with pytest.raises(NoBounds, match="LinearModel has no confidence bounds"):
        model.bounds(outcomes().contexts[:, None], outcomes().groups[:, None])


def test_contexts_too_large_for_double_precision_are_refused() -> None:
    estimator = create("estimator", "ridge")
    with pytest.raises(FairbanditError, match="not finite or not positive definite"):
        thetas(estimator, estimator.init(problem()), outcomes(scale=1e200), [N])
