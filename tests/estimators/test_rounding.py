"""Rounding moves scores by less than the rule of ties says, against rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit.estimators import OptimisticModel, RewardModel
from fairbandit.estimators.base import inner_products
from fairbandit.estimators.regressions import Regression, Regressions
from fairbandit.history import Outcomes, Problem
from fairbandit.registry import create
from fairbandit.streams import Streams
from tests.exact import Array, Uneven

Draws = np.random.Generator


def collinear(draws: Draws, n: int, d: int) -> Array:
    x = draws.integers(0, 11, (n, d)) / 10
    x[:, -1] = 1 - x[:, 0]
    return x


KINDS: dict[str, Callable[[Draws, int, int], Array]] = {
    "one-hot": lambda draws, n, d: np.eye(d)[draws.integers(0, d, n)],
    "binary": lambda draws, n, d: draws.integers(0, 2, (n, d)).astype(float),
    "decimals": lambda draws, n, d: draws.integers(0, 11, (n, d)) / 10,
    "integers": lambda draws, n, d: draws.integers(-3, 4, (n, d)).astype(float),
    "eighths": lambda draws, n, d: draws.integers(-8, 9, (n, d)) / 8,
    "large": lambda draws, n, d: draws.integers(0, 10_000, (n, d)) / 10,
    "uneven": lambda draws, n, d: draws.normal(size=(n, d)) * 10.0 ** draws.integers(-3, 4, d),
    "collinear": collinear,
}


def solved(draws: Draws, rows: Array, regularization: float) -> Iterator[tuple[Regressions, int]]:
    """Regressions of some blocks, and how many rows came before each, in chains and in updates."""
    n, width = rows.shape
    gram = torch.diag(torch.tensor([0.0] + [regularization] * (width - 1)).double())[None]
    gram[0].diagonal()[1:] = regularization
    start = Regression.of(gram)
    for low, high in pairwise(sorted({0, n, *draws.integers(0, n + 1, 3).tolist()})):
        block = torch.from_numpy(rows[low:high])[None]
        yield (
            start.after(block, sorted({1, high - low, *draws.integers(0, high - low + 1, 2)})),
            low,
        )
        if draws.random() < 0.5:
            start = start.with_rows(block)
        else:
            for row in block.split(1, 1):
                start = start.with_rows(row)
        yield start.after(block[:, :0], [0]), high


@pytest.mark.parametrize("regularization", [1.0, 0.1, 1e-3])
@pytest.mark.parametrize("kind", KINDS)
def test_rounding_stays_below_the_rule_of_ties(kind: str, regularization: float) -> None:
    """Of scores and of bonuses, a hundred times over, however the regressions were made."""
    draws = np.random.default_rng(3)
    for _ in range(3):
        d, n = int(draws.integers(1, 5)), int(draws.integers(1, 41))
        x, r = KINDS[kind](draws, n, d), draws.integers(-5, 6, n) / 5
        for found, low in solved(draws, np.c_[r, x], regularization):
            asked = KINDS[kind](draws, 3, d)
            y = torch.from_numpy(asked).expand(1, len(found.at), -1, -1)
            groups = torch.zeros(y.shape[:3], dtype=torch.int64)
            model = OptimisticModel(found.theta, torch.ones_like(found.theta[..., 0]), found)
            scores, middle = model.score(y, groups), inner_products(found.theta, y)
            stated = torch.as_tensor(model.approximate(y, groups).slack)
            for u, more in enumerate(found.at):
                exact = Uneven(x[: low + more], r[: low + more], regularization)
                for place, point in enumerate(asked):
                    rational = [Fraction(float(one)) for one in point]
                    score = sum(
                        (a * b for a, b in zip(rational, exact.theta, strict=True)), Fraction(0)
                    )
                    square = sum(
                        a * b for a, b in zip(rational, exact.solve(rational), strict=True)
                    )
                    off = abs(float(Fraction(float(middle[0, u, place])) - score))
                    assert off <= 0.1 * float(stated[0, u, place])
                    if kind in ("large", "uneven"):
                        continue  # their bonuses cancel down to a billionth
                    bonus = float(scores[0, u, place] - middle[0, u, place])
                    assert abs(bonus - math.sqrt(square)) <= 0.01 * float(stated[0, u, place])


def learned(name: str, rows: int, d: int, step: int, **how: object) -> tuple[RewardModel, Tensor]:
    """A model after some rows, taken in a few at a time, and contexts."""
    draws = torch.Generator().manual_seed(0)
    x = torch.rand(1, rows, d, generator=draws, dtype=torch.float64)
    r = x.mean(2) + 0.2 * torch.randn(1, rows, generator=draws, dtype=torch.float64)
    none = torch.zeros(1, rows, dtype=torch.int64)
    known = Outcomes(torch.arange(1, rows + 1), x, none, r)
    estimator = create("estimator", {"name": name, **how})
    asked = Problem(d, 1, Streams(0, [0]))
    state = estimator.init(asked)
    for low in range(0, rows - step, step):
        state = estimator.advance(state, known.rows(low, low + step))
    last = known.rows(rows - step, rows)
    return estimator._models(asked, state, [rows + 1], [rows], last), x[:, None]


@pytest.mark.parametrize("step", [1, 500])
@pytest.mark.parametrize("name", ["ridge", "optimistic_ridge", "group_ridge", "forgetting_ridge"])
def test_bounds_are_far_below_what_counts(name: str, step: int) -> None:
    """After 1,500 rows of a well-conditioned problem, one by one and in blocks."""
    how = {"noise": 0.0} if name == "ridge" else {}
    model, contexts = learned(name, 1500, 10, step, **how)
    groups = torch.zeros(contexts.shape[:3], dtype=torch.int64)
    scores = model.score(contexts, groups)
    errors = torch.as_tensor(model.approximate(contexts, groups).slack)
    assert 0 < float(errors.max()) <= 1.1e-9 * float(scores.abs().max())
    nothing = torch.zeros_like(contexts)
    if name != "group_ridge":  # which has an offset
        assert not torch.as_tensor(model.approximate(nothing, groups).slack).any()


@pytest.mark.parametrize(("noise", "tolerance"), [(1e-8, 8 * 2**-52), (0.0, 1e-9)])
def test_the_rule_reads_the_model_and_the_context_alone(noise: float, tolerance: float) -> None:
    """τ·Σⱼ|xⱼθⱼ|: with injected noise, no more than the last product rounds."""
    model, contexts = learned("ridge", 60, 5, 20, noise=noise)
    groups = torch.zeros(contexts.shape[:3], dtype=torch.int64)
    theta = model.theta
    assert theta is not None
    expected = tolerance * (contexts.abs() * theta.abs()[:, :, None]).sum(3)
    torch.testing.assert_close(model.approximate(contexts, groups).slack, expected)


def test_nothing_drifts() -> None:
    """A chain of 2,000 single rows ends where one factorisation of all of them does."""
    draws = torch.Generator().manual_seed(1)
    rows = torch.rand(2, 2000, 7, generator=draws, dtype=torch.float64)
    gram = torch.diag(torch.tensor([0.0] + [1.0] * 6).double()).repeat(2, 1, 1)
    chain = Regression.of(gram)
    for row in rows.split(1, 1):
        chain = chain.with_rows(row)
        assert chain.updates <= 256
    whole = Regression.of(gram).with_rows(rows)
    torch.testing.assert_close(chain.theta, whole.theta, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(chain.log_det, whole.log_det, rtol=1e-13, atol=0)
    one, other = (found.root @ found.root.mT for found in (chain, whole))
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("rows", [1, 64, 65, 200])
def test_blocks_are_solved_as_if_one_by_one(rows: int) -> None:
    """θ, ln det V and the norms of V⁻¹, by updates and, where V is ill-conditioned, by factors."""
    draws = torch.Generator().manual_seed(2)
    block = torch.rand(2, rows, 5, generator=draws, dtype=torch.float64)
    at = sorted({0, 1, rows // 2, rows})
    for regularization in (1.0, 1e-6):
        gram = torch.diag(torch.tensor([0.0] + [regularization] * 4).double()).repeat(2, 1, 1)
        found = Regression.of(gram).after(block, at)
        assert (found.w is None) == (regularization < 1)
        for u, i in enumerate(at):
            x, r = block[:, :i, 1:], block[:, :i, :1]
            V = x.mT @ x + regularization * torch.eye(4, dtype=torch.float64)
            theta = torch.linalg.solve(V, x.mT @ r)[..., 0]
            torch.testing.assert_close(found.theta[:, u], theta, rtol=1e-7, atol=1e-8)
            torch.testing.assert_close(found.log_det[:, u], torch.logdet(V))
