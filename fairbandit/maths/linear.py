"""Sums and Cholesky factors for least squares."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError


def add_outer(start: Tensor, left: Tensor, right: Tensor, times: float = 1) -> Tensor:
    """start + times · Σₛ left_s right_sᵀ.

    Args:
        start: (B, d, e), as is the sum.
        left: (B, n, d).
        right: (B, n, e).
        times: a factor.
    """
    if left.shape[1] == 1:  # many times as fast as the general product
        return torch.addcmul(start, left.transpose(1, 2), right, value=times)
    return torch.baddbmm(start, left.transpose(1, 2), right, alpha=times)


def factor(V: Tensor) -> Tensor:
    """Cholesky factors of matrices V, (…, d, d): lower triangular L with LLᵀ = V, (…, d, d).

    Raises:
        FairbanditError: a matrix that is not positive definite in floating point.
    """
    lower, info = torch.linalg.cholesky_ex(V)
    if bool(info.any()):
        raise FairbanditError(
            "ridge regression broke down: V is not positive definite in double precision; "
            "use a larger regularization"
        )
    return lower
