"""λ⁺_min(Σ), the smallest nonzero eigenvalue of the groups' mean second moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

CHUNK = 1 << 15
"""Rows factored at once."""


def smallest_nonzero(moment: Tensor) -> float:
    """The smallest eigenvalue of a positive semi-definite matrix that is not zero but for rounding.

    Args:
        moment: Σ, (d, d), known to rounding.

    Returns:
        λ⁺_min(Σ): the smallest eigenvalue above d·eps times the largest.

    >>> round(smallest_nonzero(torch.diag(torch.tensor([0.0, 2.0, 5.0]).double())), 12)
    2.0
    """
    values = torch.linalg.eigvalsh(moment)
    least = len(values) * torch.finfo(values.dtype).eps * values[-1]
    return float(values[values > least].min())


def smallest_direction(groups: Sequence[Tensor]) -> tuple[float, Tensor]:
    """λ⁺_min of Σ = G⁻¹ Σ_i n_i⁻¹ Σ_{x ∈ group i} x xᵀ, with its eigenvector.

    Singular values of the stacked rows x/√(G·n_i) are squared; the products x xᵀ, which would
    square the condition number, are never formed, so that zero and small stay apart.

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
    _, singular, vectors = torch.linalg.svd(factor, full_matrices=False)
    rows_seen = sum(len(rows) for rows in groups)
    least = max(rows_seen, d) * torch.finfo(singular.dtype).eps * singular[0]
    last = int((singular > least).sum()) - 1
    return float(singular[last]) ** 2, vectors[last]
