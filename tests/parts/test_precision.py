"""Rounding stays small: the kept inverse is one, and predictions are those of exact arithmetic."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit import Engine, Policy
from fairbandit.environments import Environment
from fairbandit.metrics import of_pick
from fairbandit.parts import Ridge
from tests import support
from tests.exactness import identity_error

Integers = NDArray[np.object_]

BOUND = 1e-6
"""The rounding that is allowed."""


def scaled(values: NDArray[np.float64]) -> tuple[Integers, int]:
    """Doubles as integers times 2⁻ˢ, exactly, and s."""
    shift = max(v.as_integer_ratio()[1].bit_length() - 1 for v in values.ravel().tolist())
    whole = [int(v) for v in np.ldexp(values, shift).ravel().tolist()]
    return np.array(whole, dtype=object).reshape(values.shape), shift


def solve(rows: list[list[int]]) -> list[Fraction]:
    """x of Ax = y by fraction-free elimination (Bareiss), A positive definite; rows [A | y]."""
    d, last = len(rows), 1
    for k in range(d):
        pivot = rows[k]
        for i in range(k + 1, d):
            row, lead = rows[i], rows[i][k]
            rows[i] = [
                0 if j <= k else (row[j] * pivot[k] - lead * pivot[j]) // last for j in range(d + 1)
            ]
        last = pivot[k]
    x = [Fraction(0)] * d
    for i in reversed(range(d)):
        rest = sum((rows[i][j] * x[j] for j in range(i + 1, d)), Fraction(0))
        x[i] = (rows[i][d] - rest) / rows[i][i]
    return x


def exact_ridge(
    contexts: NDArray[np.float64],
    rewards: NDArray[np.float64],
    regularization: float,
    nodes: list[int],
) -> Iterator[NDArray[np.float64]]:
    """θ after each number of rows, solved in exact arithmetic from these doubles, then rounded."""
    d = contexts.shape[1]
    x, s = scaled(contexts)
    r, q = scaled(rewards)
    s_more = max(0, 40 - s)  # so that λ is an integer too
    x, s = x * (1 << s_more), s + s_more
    ridge = Fraction(regularization) * (1 << 2 * s)
    assert ridge.denominator == 1
    V, b = np.diag(np.array([ridge.numerator] * d, dtype=object)), np.array([0] * d, dtype=object)
    for after, until in pairwise([0, *nodes]):
        part = x[after:until]
        V, b = V + part.T @ part, b + part.T @ r[after:until]
        theta = solve([[*row, right] for row, right in zip(V.tolist(), b.tolist(), strict=True)])
        unit = Fraction(1 << 2 * s, 1 << (s + q))
        yield np.array([float(value * unit) for value in theta])


def test_the_exact_solution_is_one() -> None:
    draws = np.random.default_rng(0)
    x, r = draws.normal(size=(30, 5)), draws.normal(size=30)
    for node, theta in zip([2, 30], exact_ridge(x, r, 0.3, [2, 30]), strict=True):
        V = x[:node].T @ x[:node] + 0.3 * np.eye(5)
        np.testing.assert_allclose(theta, np.linalg.solve(V, x[:node].T @ r[:node]), rtol=1e-12)


def played(
    chosen: Policy, world: Environment, rounds: int, nodes: list[int]
) -> tuple[dict[int, Tensor], Tensor, Tensor]:
    """θ (d,) as the policy had it at some nodes, and the picks and rewards it learned from."""
    seen: dict[int, Tensor] = {}
    models = chosen.estimator.models

    def watched(asked: Tensor, history: Any) -> Any:
        model, of_round = models(asked, history)
        for i, node in enumerate(sorted(set(asked.tolist()))):
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
    """

    learned: float
    every: float


def largest_errors(world: Environment, name: str, regularization: float) -> Errors:
    chosen = support.policy(name, regularization=regularization, noise=0.0)
    seen, picks, rewards = played(chosen, world, 1200 if name == "fair_greedy" else 600, NODES)
    assert sorted(seen) == NODES
    x, r, root = picks.numpy(), rewards.numpy(), np.sqrt(regularization) * np.eye(world.features)
    learned = every = 0.0
    for node, theta in zip(NODES, exact_ridge(x, r, regularization, NODES), strict=True):
        later = world.pools(node + 1, 400).contexts[0].flatten(0, 1).numpy()
        truth = later @ theta
        error = np.abs(later @ seen[node].numpy() - truth) / max(1.0, np.abs(truth).max())
        factor = np.asarray(np.linalg.qr(np.vstack([x[:node], root]), mode="r"))
        known = (np.linalg.solve(factor.T, later.T) ** 2).sum(0) <= 1
        learned = max(learned, float(error[known].max(initial=0.0)))
        every = max(every, float(error.max()))
    return Errors(learned, every)


CENSUS = ["census_gender", "census_ethnicity"]
POLICIES = ["greedy", "fair_greedy", "oful"]
"""Node by node, in blocks, and with the inverse asked for."""

without_census = pytest.mark.skipif(
    not support.CENSUS.is_dir(), reason="the census records are not beside this"
)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, float], Errors]:
    @cache
    def world(kind: str) -> Environment:
        if kind == "simulation":
            return support.environment()
        return support.census(kind, tmp_path_factory.getbasetemp() / "census")

    @cache
    def measured(kind: str, name: str, regularization: float) -> Errors:
        return largest_errors(world(kind), name, regularization)

    return measured


@pytest.mark.parametrize("regularization", [1e-8, 0.1])
@pytest.mark.parametrize("name", POLICIES)
def test_predictions_on_the_simulation(errors: Any, name: str, regularization: float) -> None:
    assert errors("simulation", name, regularization).every < BOUND


@without_census
@pytest.mark.parametrize("name", ["greedy", "fair_greedy"])
@pytest.mark.parametrize("kind", CENSUS)
def test_predictions_on_the_census(errors: Any, kind: str, name: str) -> None:
    """Features depend on each other linearly, and most rare categories were never picked."""
    assert errors(kind, name, 0.1).every < BOUND


@without_census
@pytest.mark.parametrize("name", ["greedy", "fair_greedy"])
@pytest.mark.parametrize("kind", CENSUS)
def test_predictions_of_what_was_learned(errors: Any, kind: str, name: str) -> None:
    """Even at λ = 1e-8, and to many more digits."""
    assert errors(kind, name, 1e-8).learned < BOUND * 1e-3


@without_census
@pytest.mark.parametrize("name", ["greedy", "fair_greedy"])
@pytest.mark.parametrize("kind", CENSUS)
def test_predictions_of_what_was_never_learned(errors: Any, kind: str, name: str) -> None:
    """From sums V and b they would be off by up to 1e-3: their rounding is divided by λ."""
    assert errors(kind, name, 1e-8).every < BOUND


def test_the_kept_inverse_is_one() -> None:
    """Just before each refresh; a million rounds are played by `python -m tests.exactness`."""
    rounds, chosen, world = 6000, support.policy("oful", regularization=0.1), support.environment()
    ridge = chosen.estimator
    assert isinstance(ridge, Ridge)
    worst, kept, picks, rewards = 0.0, 0, list[Tensor](), list[Tensor]()
    for piece in Engine(chosen, world, rounds=rounds, seed=1, replicas=[0]).play():
        worst, kept = max(worst, identity_error(ridge)), kept + (ridge._solved is not None)
        pools = world.pools(piece.first, piece.actions.shape[1])
        picks.append(of_pick(pools.contexts, piece.actions)[0])
        rewards.append(piece.rewards[0])
    assert worst < 1e-10
    assert kept > 20
    assert ridge._solved is not None
    x, r = torch.cat(picks)[:-1].numpy(), torch.cat(rewards)[:-1].numpy()
    (theta,) = exact_ridge(x, r, 0.1, [rounds - 1])
    np.testing.assert_allclose(ridge._solved.theta[0].numpy(), theta, atol=1e-10)
