"""Draws from N(0, V⁻¹) as a function of standard normal ones: L⁻ᵀz, where LLᵀ = V.

L is lower triangular with a positive diagonal, and so is given by V alone: the same z gives the
same draw whichever way the regressions of a block were solved.
"""

from __future__ import annotations

from bisect import bisect_left

import torch
from torch import Tensor

from fairbandit.maths.linear import add_outer, factor

WORK = 1 << 18
"""Numbers in the largest work array of `of_sums`: they stay in cache."""


def of_sums(V: Tensor, rows: Tensor, at: list[int], z: Tensor) -> Tensor:
    """L⁻ᵀz with LLᵀ = V + Σ_{s≤i} x_s x_sᵀ, for each i of some numbers of rows.

    Args:
        V: sums of squares, (B, d, d).
        rows: x, (B, n, d).
        at: U ascending numbers of rows, at most n.
        z: (B, U, d).

    Returns:
        (B, U, d).

    Raises:
        FairbanditError: sums that are not positive definite in floating point.
    """
    most = max(WORK // V.numel(), 1)
    drawn, low, done = [], 0, 0
    while low < len(at):
        start = at[low]
        V, done = add_outer(V, rows[:, done:start], rows[:, done:start]), start
        high = min(bisect_left(at, start + most, low), low + most)
        some = rows[:, start : at[high - 1]]
        squares = torch.cat([V[:, None], some[..., None] * some[..., None, :]], 1)
        lower = factor(squares.cumsum(1))[:, [i - start for i in at[low:high]]]
        upper = lower.transpose(-1, -2)
        drawn.append(torch.linalg.solve_triangular(upper, z[:, low:high, :, None], upper=True))
        low = high
    return torch.cat(drawn, 1)[..., 0]


def of_root(root: Tensor, z: Tensor) -> Tensor:
    """L⁻ᵀz given any square F with FFᵀ = V⁻¹.

    L⁻ᵀ is the upper triangular factor with a positive diagonal. The QR factorisation of Fᵀ with
    its columns in reverse order gives it with errors relative to each row of F, so that it stays
    accurate where V is ill-conditioned.

    Args:
        root: F, (B, U, d, d).
        z: (B, U, d).

    Returns:
        (B, U, d).
    """
    reverse = torch.linalg.qr(root.flip(-2).transpose(-1, -2), mode="r").R
    upper = reverse.transpose(-1, -2).flip((-2, -1))
    signs = upper.diagonal(dim1=-2, dim2=-1).sign()
    return (upper @ (signs * z)[..., None])[..., 0]
