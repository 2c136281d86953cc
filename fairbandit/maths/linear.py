"""Sums and Cholesky factors for least squares."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError


def quadratic_sums(
    V: Tensor, b: Tensor, contexts: Tensor, rewards: Tensor, at: list[int]
) -> tuple[Tensor, Tensor]:
    """V + Σ_{s≤i} x_s x_sᵀ and b + Σ_{s≤i} r_s x_s for each i asked for.

    Args:
        V: the initial sum, (B, d, d).
        b: likewise, (B, d).
        contexts: x, (B, n, d).
        rewards: r, (B, n).
        at: U ascending numbers of terms, each from 0 to n.

    Returns:
        The sums, (B, U, d, d) and (B, U, d).
    """
    if len(at) == 1:  # one product instead of n outer ones
        n = at[0]
        x, r = contexts[:, :n], rewards[:, :n, None]
        return add_outer(V, x, x)[:, None], add_outer(b[..., None], x, r)[:, None, :, 0]
    index = torch.tensor(at, device=V.device)
    outer = torch.cat([V[:, None], contexts[..., :, None] * contexts[..., None, :]], 1)
    weighed = torch.cat([b[:, None], contexts * rewards[..., None]], 1)
    return outer.cumsum(1)[:, index], weighed.cumsum(1)[:, index]


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
