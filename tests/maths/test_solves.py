"""Regressions gone on from are those solved anew, however the rows are cut into calls."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit.maths import solves
from fairbandit.maths.solves import QRSolve, Solutions, Solved, WoodburyUpdate, cholesky_solve
from tests.exact import inverses

Sums = tuple[Tensor, Tensor]


def rows(
    seed: int, b: int, n: int, d: int, zeros: float = 0.0, whole: bool = False
) -> tuple[Tensor, Tensor]:
    """Contexts (B, n, d) and rewards (B, n); some rows are all 0, as where nothing is known."""
    draws = np.random.default_rng(seed)
    x = draws.integers(-2, 3, (b, n, d)).astype(float) if whole else draws.normal(size=(b, n, d))
    r = draws.normal(size=(b, n))
    nothing = draws.random((b, n)) < zeros
    x[nothing], r[nothing] = 0, 0
    return torch.from_numpy(x), torch.from_numpy(r)


def direct(x: Tensor, r: Tensor, regularization: float) -> Sums:
    """V (B, d, d) and b (B, d) of all rows."""
    V = x.transpose(1, 2) @ x + regularization * torch.eye(x.shape[2], dtype=x.dtype)
    return V, (x * r[..., None]).sum(1)


def fresh(b: int, d: int, regularization: float) -> Solved:
    V, none = direct(torch.zeros(b, 0, d).double(), torch.zeros(b, 0).double(), regularization)
    return cholesky_solve(V, none)


def compare(found: Solved, n: int, x: Tensor, r: Tensor, regularization: float) -> None:
    """One solution against NumPy's, of the first n of all rows."""
    V, sums = (part.numpy() for part in direct(x[:, :n], r[:, :n], regularization))
    solved = np.linalg.solve(V, sums[..., None])[..., 0]
    np.testing.assert_allclose(found.theta, solved, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.log_det, np.linalg.slogdet(V)[1], atol=1e-9)
    np.testing.assert_allclose(found.inverse, np.linalg.inv(V), rtol=1e-8, atol=1e-9)


def check(found: Solutions, at: list[int], x: Tensor, r: Tensor, regularization: float) -> None:
    """Every solution against NumPy's, after so many of all rows."""
    b, _, d = x.shape
    assert found.theta.shape == (b, len(at), d)
    assert found.log_det.shape == (b, len(at))
    every = inverses(found)
    assert every.shape == (b, len(at), d, d)
    for u, n in enumerate(at):
        one = Solved(found.theta[:, u], found.log_det[:, u], every[:, u])
        compare(one, n, x, r, regularization)
    for last, part in zip(found.last, (found.theta, found.log_det, every), strict=True):
        torch.testing.assert_close(last, part[:, -1], rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    b=st.integers(1, 3),
    d=st.integers(1, 5),
    calls=st.lists(st.sampled_from([0, 1, 1, 2, 7, 30]), min_size=1, max_size=6),
    regularization=st.sampled_from([0.1, 10.0]),
    zeros=st.sampled_from([0.0, 0.3, 1.0]),
    whole=st.booleans(),
    each=st.booleans(),
    small=st.sampled_from([1, 2, 64]),
)
def test_a_woodbury_update_is_a_solve_of_all_rows(
    seed: int,
    b: int,
    d: int,
    calls: list[int],
    regularization: float,
    zeros: float,
    whole: bool,
    each: bool,
    small: int,
) -> None:
    """Any calls, each for every row, or for some of them and the last, none left out or 0."""
    draws = np.random.default_rng(seed)
    x, r = rows(seed, b, sum(calls), d, zeros, whole)
    start, first = fresh(b, d, regularization), 0
    for n in calls:
        at = list(range(1, n + 1)) if each and n else sorted({*draws.integers(0, n + 1, 3), n})
        at = [int(i) for i in at]
        part = slice(first, first + n)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(solves, "SMALL", small)
            found = WoodburyUpdate(start, x[:, part], r[:, part], at)
        check(found, [first + i for i in at], x, r, regularization)
        start, first = found.last, first + n


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    b=st.integers(1, 3),
    d=st.integers(1, 5),
    calls=st.lists(st.sampled_from([0, 1, 2, 7, 30]), min_size=1, max_size=4),
    zeros=st.sampled_from([0.0, 0.3, 1.0]),
    small=st.sampled_from([1, 2, 64]),
)
def test_a_qr_solve_is_a_solve_of_all_rows(
    seed: int, b: int, d: int, calls: list[int], zeros: float, small: int
) -> None:
    x, r = rows(seed, b, sum(calls), d, zeros)
    draws, both = np.random.default_rng(seed), torch.cat([x, r[..., None]], 2)
    root = torch.cat([torch.eye(d).double() * math.sqrt(0.1), torch.zeros(d, 1).double()], 1)
    root, first = root.expand(b, -1, -1), 0
    for n in calls:
        at = sorted({*draws.integers(0, n + 1, 3).tolist(), n})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(solves, "SMALL", small)
            found = QRSolve(root, both[:, first : first + n], at)
        check(found, [first + i for i in at], x, r, 0.1)
        root, first = found.root, first + n


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([2, 9, 200]),
    regularization=st.floats(1e-6, 10),
)
def test_features_that_no_row_has_stay_exact(seed: int, d: int, regularization: float) -> None:
    """Their θ is 0 and their V⁻¹ 1/λ, not nearly so: contexts of such features alone tie."""
    draws = np.random.default_rng(seed)
    x, r = rows(seed, 2, 9, d)
    since = torch.from_numpy(draws.integers(0, 14, (2, 1, d)))  # the first row to have a feature
    x = x.where(torch.arange(9)[:, None] >= since, 0)
    root = torch.cat([torch.eye(d).double() * math.sqrt(regularization), torch.zeros(d, 1)], 1)
    root, at = root.expand(2, -1, -1), [0, 3, 4, 9]
    found = QRSolve(root, torch.cat([x, r[..., None]], 2), at)
    again = QRSolve(found.root, torch.cat([x, r[..., None]], 2), [9])
    absent = since >= torch.tensor([*at, 9])[:, None]
    theta, factor = (
        torch.cat(both, 1) for both in ((found.theta, again.theta), (found.factor, again.factor))
    )
    assert bool((theta[absent] == 0).all())
    alone = factor[absent]
    assert bool(((alone != 0).sum(1) == 1).all())
    assert alone.sum(1).square().tolist() == pytest.approx([1 / regularization] * len(alone))
