"""Triangular roots of sums of squares, right also where rows differ in size by many powers of ten.

A root [R z] of rows [X r] has RᵀR = XᵀX and Rᵀz = Xᵀr: d rows that teach a least squares fit as
all of them do. It may have its columns in any order, that is be triangular but for a permutation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.maths.linear import factor

UNEVEN = torch.finfo(torch.float64).eps ** -0.5
"""Where rows differ in size by more than this, sums of their squares lose the small ones."""


class Root(NamedTuple):
    """A root of some rows.

    Attributes:
        rows: [R z], (…, d, d + 1), the columns in the order of the rows' own.
        order: which column comes at which place of the triangle, (…, d) int64; None where R is
            upper triangular as it is.
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
        """What was solved from `upper`, (…, d, e), with its rows in the order of the columns."""
        if self.order is None:
            return solved
        order = self.order[..., None].expand(solved.shape)
        return torch.empty_like(solved).scatter_(-2, order, solved)


def root_of_rows(rows: Tensor) -> Root:
    """The root of some rows.

    Rounding of plain reflections is relative to the largest rows. That is too coarse where rows
    are very uneven; there, each reflection starts from the largest column that is left and from
    its largest row. A row then only ever changes by multiples of its own entries, none much above
    1, so that its rounding is relative to itself.

    Args:
        rows: [X r], (…, m, d + 1), m ≥ d.

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
    """The root of rows of which only the sums are known.

    Args:
        V: XᵀX, (…, d, d).
        b: Xᵀr, (…, d).

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
