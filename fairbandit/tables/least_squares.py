"""Least squares on rows that need not fit into memory at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

CHUNK = 1 << 15
"""The number of rows in one QR factorisation."""


def ridge_fit(contexts: Tensor, rewards: Tensor, regularization: float) -> Tensor:
    """θ = argmin ‖Xθ − y‖² + λ‖θ‖², by orthogonal factors of chunks of rows.

    The triangular factor R of [X | y], with √λ·I as its first rows, is updated chunk by chunk.
    XᵀX, which would square the condition number, is never formed, so that the predictions Xθ stay
    accurate if columns are collinear. As λ → 0, θ tends to the solution of minimum norm.

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
