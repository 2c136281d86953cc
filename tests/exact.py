"""Ridge regression in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPS = 2.0**-53
"""The rounding of one operation."""


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
        side = Fraction(float(np.sqrt(regularization)))
        self._rows += [[side * (i == j) for j in range(d)] + [Fraction(0)] for i in range(d)]

    def solve(self, y: Sequence[Fraction]) -> list[Fraction]:
        """V⁻¹y."""
        d, rows = len(y), [[*row, right] for row, right in zip(self._V, y, strict=True)]
        for k in range(d):
            for i in range(d):
                if i != k:
                    times = rows[i][k] / rows[k][k]
                    rows[i] = [a - times * b for a, b in zip(rows[i], rows[k], strict=True)]
        return [rows[i][d] / rows[i][i] for i in range(d)]

    def prediction(self, theta: Array, y: Array) -> float:
        """The error of ⟨y, θ⟩, in units of what it is off by where every row is by its own size."""
        exact = [Fraction(float(one)) for one in y]
        given = [Fraction(float(one)) for one in theta]
        error = abs(_dot(exact, given) - _dot(exact, self.theta))
        solved, size = self.solve(exact), sum(map(abs, self.theta), Fraction(0))
        off = sum((abs(a * b) for a, b in zip(exact, self.theta, strict=True)), Fraction(0))
        for *x, r in self._rows:
            largest = max(map(abs, x))
            residual = abs(r - _dot(x, self.theta))
            off += abs(_dot(solved, x)) * (abs(r) + largest * size)
            off += sum(map(abs, solved)) * largest * residual
        return float(error / off) if off else float(error > 0)

    def spread(self, square: float, y: Array) -> float:
        """The error of ‖y‖²_{V⁻¹}, likewise."""
        exact = [Fraction(float(one)) for one in y]
        solved = self.solve(exact)
        off = sum(map(abs, solved)) * sum(
            abs(_dot(solved, x)) * max(map(abs, x)) for *x, _ in self._rows
        )
        truth = _dot(exact, solved)
        return float(abs(Fraction(square) - truth) / (off + truth))


def _dot(one: Sequence[Fraction], other: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True)), Fraction(0))
