"""Ridge regression in exact arithmetic, and how far from it a stable method may end.

A method is stable whose result is exact for rows that are off by some roundings. To first order, a
prediction ⟨y, θ⟩ then is off by Σᵢ ⟨y, P xᵢ⟩(δrᵢ − ⟨δxᵢ, θ⟩) + ⟨P y, δxᵢ⟩ρᵢ, with P = V⁻¹, the
residuals ρ = r − Xθ, and [√λI 0] among the rows [X r]. Relative to θ that is ε(κ + κ²·ρ), κ being
the condition number of [X; √λI]. It holds on any processor.

Reference: Higham, Accuracy and Stability of Numerical Algorithms, Sec. 20.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.object_]

EPS = 2.0**-53
"""The rounding of one operation."""


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


def off_by(X: Array, r: Array, regularization: float, theta: Array, y: Array) -> Array:
    """By how much predictions may be off where every row is, by 3√d roundings of the largest.

    An entry goes through d reflections, and its roundings are as good as independent: √d of them,
    three times over.

    Args:
        X: rows, (n, d).
        r: rewards, (n,).
        regularization: λ.
        theta: the exact solution, (d,).
        y: what is predicted for, (m, d).

    Returns:
        (m,).
    """
    d = X.shape[1]
    rows, right = np.vstack([X, np.sqrt(regularization) * np.eye(d)]), np.append(r, np.zeros(d))
    root = np.asarray(np.linalg.qr(rows, mode="r"))
    half = np.linalg.solve(root.T, y.T)
    solved = np.linalg.norm(np.linalg.solve(root, half), axis=0)
    residual = np.linalg.norm(right - rows @ theta)
    largest = np.linalg.norm(rows, axis=1).max()
    through = largest * np.linalg.norm(theta) + np.abs(right).max()
    off = solved * largest * residual + np.linalg.norm(half, axis=0) * through
    return 3 * np.sqrt(d) * EPS * (off + np.abs(y) @ np.abs(theta))


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
