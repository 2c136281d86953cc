"""Triangular roots of sums of squares, accurate also for rows of very different sizes.

A root [R z] of rows [X r] has RᵀR = XᵀX and Rᵀz = Xᵀr: least squares on its d rows has the same
solution as on all rows. R is upper triangular up to a permutation of its columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairbandit.maths.linear import factor

UNEVEN = torch.finfo(torch.float64).eps ** -0.5
"""Where rows differ in size by more than this, sums of their squares lose the small ones."""

CHUNK = 1 << 15
"""Rows that `ridge_fit` factors at once."""


class Root(NamedTuple):
    """A root of some rows.

    Attributes:
        rows: [R z], (…, d, d + 1), the columns in the order of the rows' own.
        order: the column at each place of the triangle, (…, d) int64; None if R is upper
            triangular as it is.
    """

    rows: Tensor
    order: Tensor | None

    @property
    def upper(self) -> Tensor:
        """R with its columns in the triangle's order, (…, d, d)."""
        left = self.rows[..., :-1]
        if self.order is None:
            return left
        return left.gather(-1, self.order[..., None, :].expand(left.shape))

    def restore(self, solved: Tensor) -> Tensor:
        """A solution of a system with `upper`, (…, d, e), in the order of the rows' own columns."""
        if self.order is None:
            return solved
        order = self.order[..., None].expand(solved.shape)
        return torch.empty_like(solved).scatter_(-2, order, solved)


def rows_of(contexts: Tensor, rewards: Tensor) -> Tensor:
    """[X r], (…, n, d + 1), of X (…, n, d) and r (…, n)."""
    return torch.cat([contexts, rewards[..., None]], -1)


def widened(rows: Tensor, more: int) -> Tensor:
    """[X r] with more columns of X, which are 0."""
    return rows_of(pad(rows[..., :-1], (0, more)), rows[..., -1])


def root_of_rows(rows: Tensor) -> Root:
    """The root of some rows [X r], (…, m, d + 1) with m ≥ d.

    The rounding error of plain reflections is relative to the largest rows. Where rows are very
    uneven, each reflection therefore pivots on the largest remaining column and its largest row,
    which keeps the rounding error of each row relative to that row.

    Reference:
        Cox, Higham, Stability of Householder QR factorization for weighted least squares problems,
        1998.
    """
    sizes = rows.abs().amax(-1)
    least = sizes.where(sizes > 0, torch.inf).amin(-1)
    if bool((sizes.amax(-1) > UNEVEN * least).any()):
        return _pivoted(rows)
    return Root(torch.linalg.qr(rows, mode="r").R[..., : rows.shape[-1] - 1, :], None)


def root_of_sums(V: Tensor, b: Tensor) -> Root:
    """The root of rows X, r given V = XᵀX, (…, d, d), and b = Xᵀr, (…, d).

    Raises:
        FairbanditError: a V that is not positive definite in floating point.
    """
    lower = factor(V)
    right = torch.linalg.solve_triangular(lower, b[..., None], upper=False)
    return Root(torch.cat([lower.transpose(-1, -2), right], -1), None)


def _pivoted(rows: Tensor) -> Root:
    """The root by reflections, each from the largest column left and its largest row."""
    *batch, m, e = rows.shape
    left = rows.reshape(-1, m, e)
    root = left.new_zeros(len(left), e - 1, e)
    order = torch.zeros(root.shape[:2], dtype=torch.int64, device=rows.device)
    done = torch.zeros_like(order, dtype=torch.bool)
    for k in range(e - 1):
        squares = left[..., :-1].square().sum(1).masked_fill(done, -1)
        size, pivot = squares.max(1, keepdim=True)
        size, down = size.sqrt()[..., None], pivot[:, None].expand(-1, m, 1)
        column = left.gather(2, down)
        lead, row = column.abs().max(1, keepdim=True)
        normal = column.scatter_add(1, row, column.gather(1, row).sign() * size)
        half = size * (size + lead)  # ‖normal‖²/2
        left = left - normal * (normal.transpose(1, 2) @ left / half.where(half > 0, 1))
        across = row.expand(-1, 1, e)
        root[:, k : k + 1], order[:, k] = left.gather(1, across), pivot[:, 0]
        left = left.scatter(1, across, 0).scatter(2, down, 0)
        done.scatter_(1, pivot, True)
    return Root(root.view(*batch, e - 1, e), order.view(*batch, e - 1))


def ridge_fit(contexts: Tensor, rewards: Tensor, regularization: float) -> Tensor:
    """θ = argmin ‖Xθ − y‖² + λ‖θ‖², by orthogonal factors of chunks of rows.

    The triangular factor R of [X | y], with √λ·I as its first rows, is updated chunk by chunk.
    XᵀX, which would square the condition number, is never formed: collinear columns leave the
    predictions Xθ as they should be. As λ → 0, θ is the solution of minimum norm.

    Args:
        contexts: X, (n, d) float64.
        rewards: y, (n,).
        regularization: λ > 0.

    Returns:
        θ, (d,).

    >>> ridge_fit(torch.eye(2), torch.tensor([2.0, 4.0]), 1.0).round(decimals=4)
    tensor([1., 2.])
    """
    d = contexts.shape[1]
    factor = torch.zeros(d, d + 1, dtype=contexts.dtype, device=contexts.device)
    factor.fill_diagonal_(math.sqrt(regularization))
    for rows, targets in zip(contexts.split(CHUNK), rewards.split(CHUNK), strict=True):
        stacked = torch.cat([factor, torch.cat([rows, targets[:, None]], dim=1)])
        factor = torch.linalg.qr(stacked, mode="r").R
    solved = torch.linalg.solve_triangular(factor[:d, :d], factor[:d, d:], upper=True)
    return solved[:, 0]
