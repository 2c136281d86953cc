"""Roots of rows of any size: a least squares fit by them is off as if each row were by its own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.maths import roots
from fairbandit.maths.solves import QRSolve
from tests.exact import EPS, Array, Uneven, inverses

ROUNDINGS = 100
"""How many roundings of each row a fit may be off by: a few a reflection, of at most four."""


def uneven(draws: np.random.Generator, n: int, d: int, powers: list[int], columns: bool) -> Array:
    """Rows [X r] whose sizes, or whose columns' sizes, differ by powers of ten; some are 0."""
    rows = draws.normal(size=(n, d + 1)).clip(-1, 1)
    sizes = 10.0 ** draws.choice(powers, size=(1, d + 1) if columns else (n, 1))
    rows[draws.random(n) < 0.1] = 0
    return np.asarray(rows * sizes)


POWERS = [[0, 9], [0, 4], [-100, -50, 0, 50, 100], [0, 8, 15], [90], [-9, 0]]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    d=st.integers(1, 4),
    powers=st.sampled_from(POWERS),
    columns=st.booleans(),
    regularization=st.sampled_from([1e-8, 0.1, 10.0]),
)
def test_fits_of_uneven_rows(
    seed: int, n: int, d: int, powers: list[int], columns: bool, regularization: float
) -> None:
    """Added in two calls, the root of the first among the rows of the second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roots, "UNEVEN", 0.0)
        check(np.random.default_rng(seed), n, d, powers, columns, regularization)


def check(
    draws: np.random.Generator,
    n: int,
    d: int,
    powers: list[int],
    columns: bool,
    regularization: float,
) -> None:
    rows = uneven(draws, n, d, powers, columns)
    root = torch.zeros(1, d, d + 1, dtype=torch.float64)
    root.diagonal(dim1=1, dim2=2).fill_(regularization**0.5)
    half = torch.from_numpy(rows[None, : n // 2]), torch.from_numpy(rows[None, n // 2 :])
    root = QRSolve(root, half[0], [n // 2]).root
    found = QRSolve(root, half[1], [n - n // 2])
    exact = Uneven(rows[:, :d], rows[:, d], regularization)
    for y in [*np.eye(d), rows[0, :d], draws.normal(size=d)]:
        assert exact.prediction(found.theta[0, 0].numpy(), y) < ROUNDINGS * EPS
    for y in np.eye(d):
        square = float((torch.from_numpy(y) @ found.factor[0, 0]).square().sum())
        assert exact.spread(square, y) < ROUNDINGS * EPS
        assert exact.spread(float(y @ inverses(found)[0, 0].numpy() @ y), y) < ROUNDINGS * EPS
    sign, log_det = np.linalg.slogdet(found.root[0, :, :-1].numpy())
    assert float(found.log_det) == pytest.approx(2 * log_det, rel=1e-9, abs=1e-9)
    assert sign


def test_plain_reflections_would_drown_the_small_rows() -> None:
    """Two rows of 1e50 fix two of three directions; the others have to tell of the third."""
    rows = np.random.default_rng(0).normal(size=(12, 4))
    rows[[3, 8]] *= 1e50
    exact, both = Uneven(rows[:, :3], rows[:, 3], 1.0), torch.from_numpy(rows)
    stacked = torch.cat([torch.eye(3, 4, dtype=torch.float64), both])[None, None]
    plain = torch.linalg.qr(stacked, mode="r").R[..., :3, :]
    third = np.cross(rows[3, :3] / 1e50, rows[8, :3] / 1e50)
    right = (
        QRSolve(torch.eye(3, 4, dtype=torch.float64)[None], both[None], [12]).theta[0, 0].numpy()
    )
    wrong = torch.linalg.solve_triangular(plain[..., :3], plain[..., 3:], upper=True)[0, 0, :, 0]
    assert exact.prediction(right, third) < ROUNDINGS * EPS
    assert exact.prediction(wrong.numpy(), third) > 1e6 * EPS
