"""Estimators against the closed form, in blocks and one by one, alone and together."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators import Estimator, NoBounds
from fairbandit.history import Outcomes
from fairbandit.history.problem import Problem
from fairbandit.registry import create
from fairbandit.streams import Purpose, Streams

D, N, G = 4, 30, 2

RIDGES = ("ridge", "optimistic_ridge", "group_ridge", "thompson_ridge", "forgetting_ridge")


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


@pytest.mark.parametrize("regularization", [1.0, 1e-8])
def test_ridge_is_the_closed_form_with_its_noise(regularization: float) -> None:
    estimator = create("estimator", {"name": "ridge", "regularization": regularization})
    known, at = outcomes(), [0, 1, 5, N]
    found = thetas(estimator, estimator.init(problem()), known, at)
    gamma = problem().streams[Purpose.ESTIMATOR].normal(1, N, D)
    for place, n in enumerate(at):
        x, r = known.contexts[:, :n], known.rewards[:, :n, None]
        V = x.mT @ x + regularization * torch.eye(D, dtype=torch.float64)
        theta = torch.linalg.solve(V, x.mT @ r)[..., 0]
        noise = 1e-8 / (D * math.sqrt(n)) * gamma[:, n - 1] if n else 0
        torch.testing.assert_close(found[:, place], theta + noise, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", RIDGES)
def test_models_do_not_depend_on_how_outcomes_were_taken_in(name: str) -> None:
    estimator, known, at = create("estimator", name), outcomes(), [20, 25, N]
    whole = thetas(estimator, estimator.init(problem()), known, at)
    state = estimator.advance(estimator.init(problem()), known.rows(0, 20))
    torch.testing.assert_close(thetas(estimator, state, known.rows(20, N), at), whole)
    one = estimator.init(problem())
    for place in torch.randperm(20, generator=torch.Generator().manual_seed(1)).tolist():
        one = estimator.advance(one, known.rows(place, place + 1))
    torch.testing.assert_close(thetas(estimator, one, known.rows(20, N), at), whole)


@pytest.mark.parametrize("shared", ["slopes", "nothing"])
def test_new_groups_have_no_coefficients_and_change_no_others(shared: str) -> None:
    estimator = create("estimator", {"name": "group_ridge", "shared": shared})
    state = estimator.advance(estimator.init(problem()), outcomes())
    grown = estimator.grow(state, problem(groups=G + 2))
    wide, rest = problem(groups=G + 2), outcomes().rows(0, 0)
    model = estimator._models(wide, grown, [N], [N], rest)
    narrow = estimator._models(problem(), state, [N], [N], rest)
    x, groups = outcomes().contexts[:, None], torch.arange(N).expand(3, 1, N) % G
    torch.testing.assert_close(model.score(x, groups), narrow.score(x, groups))
    unseen = model.score(x, torch.full_like(groups, G))[:, 0]
    slopes = (x[:, 0] @ model.parameters[0][:, 0, :D, None])[..., 0]
    torch.testing.assert_close(unseen, slopes if shared == "slopes" else torch.zeros_like(unseen))


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
