from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fairbandit.tables.least_squares import ridge_fit


def problem(rows: int, columns: int, seed: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(rows, columns)), draw.normal(size=rows)


def test_collinear_columns_leave_the_predictions_right():
    X, y = problem(400, 5)
    X = np.column_stack([X, X @ np.ones(5), X[:, 0] + 1e-5 * problem(400, 1, seed=1)[0][:, 0]])
    theta = ridge_fit(torch.from_numpy(X), torch.from_numpy(y), 1e-14).numpy()
    expected = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(X @ theta, expected, atol=1e-6)
