"""Draws from N(0, V⁻¹) beside NumPy's Cholesky factor, and where sums would lose digits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import FairbanditError
from fairbandit.maths import gaussian
from fairbandit.maths.gaussian import of_root, of_sums


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    b=st.integers(1, 3),
    d=st.integers(1, 5),
    at=st.lists(st.sampled_from([0, 1, 2, 2, 3, 7, 30]), min_size=1, max_size=9).map(sorted),
    work=st.sampled_from([1, 200, 1 << 18]),
)
def test_whichever_way_it_is_computed(seed: int, b: int, d: int, at: list[int], work: int) -> None:
    """From sums in pieces of any size, and from any root of V⁻¹."""
    draws = np.random.default_rng(seed)
    V = draws.normal(size=(b, d, 2 * d))
    V = V @ V.transpose(0, 2, 1) + 0.1 * np.eye(d)
    rows, z = draws.normal(size=(b, 30, d)), draws.normal(size=(b, len(at), d))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian, "WORK", work)
        found = of_sums(torch.from_numpy(V), torch.from_numpy(rows), at, torch.from_numpy(z))
    sums = [V + rows[:, :i].transpose(0, 2, 1) @ rows[:, :i] for i in at]
    lower = np.linalg.cholesky(np.stack(sums, 1))
    expected = np.linalg.solve(lower.swapaxes(-1, -2), z[..., None])[..., 0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    turned = np.linalg.qr(draws.normal(size=(b, len(at), d, d)))[0]
    root = torch.from_numpy(np.linalg.inv(lower).swapaxes(-1, -2) @ turned)
    np.testing.assert_allclose(of_root(root, torch.from_numpy(z)), expected, rtol=1e-9, atol=1e-11)


def test_each_feature_keeps_its_digits_whatever_its_scale() -> None:
    """V = D·LLᵀ·D with D from 10⁻¹⁰⁰ to 10¹⁰⁰: its sums would keep nothing of the small ones."""
    draws = np.random.default_rng(0)
    d, z = 5, draws.normal(size=5)
    scale = 10.0 ** np.array([0, -100, 50, 100, -7])
    lower = np.tril(draws.normal(size=(d, d)), -1) + np.eye(d)
    turned = np.linalg.qr(draws.normal(size=(d, d)))[0]
    root = np.linalg.inv(lower).T @ turned / scale[:, None]
    found = of_root(*(torch.from_numpy(part)[None, None] for part in (root, z)))[0, 0]
    np.testing.assert_allclose(found, np.linalg.solve(lower.T, z) / scale, rtol=1e-12)


def test_sums_that_are_not_positive_definite() -> None:
    V = torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))[None]
    nothing = torch.zeros(1, 1, 2, dtype=torch.float64)
    with pytest.raises(FairbanditError, match="not positive definite in double precision"):
        of_sums(V, nothing, [0], nothing)
