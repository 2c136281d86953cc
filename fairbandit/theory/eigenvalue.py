"""Computes λ⁺_min(Σ), the smallest nonzero eigenvalue of the groups' mean second moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

CHUNK = 1 << 15
"""The number of rows that are factored at once."""


def smallest_square(factor: Tensor, rows: int | None = None) -> tuple[float, Tensor]:
    """The smallest eigenvalue of Σ = AᵀA that is not zero but for rounding, with its eigenvector.

    Singular values of A are squared; the product, which would square the condition number, is
    never formed, so that zero and small stay apart.

    Args:
        factor: A, (n, d) float64.
        rows: how many rows A was reduced from; by default n.

    Returns:
        λ⁺_min(Σ), the square of the smallest singular value above max(rows, d)·eps times the
        largest, and a unit vector v with Σv = λ⁺_min·v, (d,).

    >>> value, _ = smallest_square(torch.diag(torch.tensor([0.0, 2.0, 3.0]).double()))
    >>> round(value, 12)
    4.0
    """
    _, singular, vectors = torch.linalg.svd(factor, full_matrices=False)
    size = max(len(factor) if rows is None else rows, factor.shape[1])
    least = size * torch.finfo(singular.dtype).eps * singular[0]
    last = int((singular > least).sum()) - 1
    return float(singular[last]) ** 2, vectors[last]


def smallest_direction(groups: Sequence[Tensor]) -> tuple[float, Tensor]:
    """λ⁺_min of Σ = G⁻¹ Σ_i n_i⁻¹ Σ_{x ∈ group i} x xᵀ, with its eigenvector.

    The factor of Σ is the stacked rows x/√(G·n_i), reduced by QR; see `smallest_square`.

    Args:
        groups: the contexts of each group, (n_i, d) float64.

    Returns:
        λ⁺_min, and a unit vector v with Σv = λ⁺_min·v, (d,).
    """
    d = groups[0].shape[1]
    factor = groups[0].new_zeros(0, d)
    for rows in groups:
        scale = math.sqrt(len(groups) * len(rows))
        for chunk in rows.split(CHUNK):
            factor = torch.linalg.qr(torch.cat([factor, chunk / scale]), mode="r").R
    return smallest_square(factor, rows=sum(len(rows) for rows in groups))
