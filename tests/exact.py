"""Ridge regression in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Uneven:
    """A ridge regression of few rows of any size, all in rational numbers.

    Args:
        X: rows, (n, d).
        r: rewards, (n,).
        regularization: λ.
    """

    def __init__(self, X: Array, r: Array, regularization: float) -> None:
        d = X.shape[1]
        self._rows = [[Fraction(float(one)) for one in row] for row in np.c_[X, r]]
        ridge = Fraction(regularization)
        self._V = [
            [sum((a[i] * a[j] for a in self._rows), ridge * (i == j)) for j in range(d)]
            for i in range(d)
        ]
        self.theta = self.solve(
            [sum((a[i] * a[d] for a in self._rows), Fraction(0)) for i in range(d)]
        )

    def solve(self, y: Sequence[Fraction]) -> list[Fraction]:
        """V⁻¹y."""
        d, rows = len(y), [[*row, right] for row, right in zip(self._V, y, strict=True)]
        for k in range(d):
            for i in range(d):
                if i != k:
                    times = rows[i][k] / rows[k][k]
                    rows[i] = [a - times * b for a, b in zip(rows[i], rows[k], strict=True)]
        return [rows[i][d] / rows[i][i] for i in range(d)]
