from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit.maths import roots
from fairbandit.maths.roots import ridge_fit


def problem(rows: int, columns: int, seed: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(rows, columns)), draw.normal(size=rows)


@pytest.mark.parametrize(("rows", "chunk"), [(500, 64), (64, 64), (3, 64)])
def test_normal_equations(rows, chunk, monkeypatch):
    monkeypatch.setattr(roots, "CHUNK", chunk)
    X, y = problem(rows, 6)
    theta = ridge_fit(torch.from_numpy(X), torch.from_numpy(y), 0.3).numpy()
    np.testing.assert_allclose(theta, np.linalg.solve(X.T @ X + 0.3 * np.eye(6), X.T @ y))


def test_collinear_columns_leave_the_predictions_right():
    X, y = problem(400, 5)
    X = np.column_stack([X, X @ np.ones(5), X[:, 0] + 1e-5 * problem(400, 1, seed=1)[0][:, 0]])
    theta = ridge_fit(torch.from_numpy(X), torch.from_numpy(y), 1e-14).numpy()
    expected = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(X @ theta, expected, atol=1e-6)
