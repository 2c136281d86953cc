"""Ridge regressions on the first i of a number of rows [r x], solved for many i at once.

The matrix G = Σ [r x]ᵀ[r x] + diag(0, λ, …, λ) holds V = Σ xxᵀ + λI, b = Σ r x and Σ r². A
regression is solved by the Cholesky factor of V. Further rows are added by the formula of Sherman,
Morrison and Woodbury; if the formula would lose digits, V is factored again for each i.

Reference: Bierman, Factorization Methods for Discrete Sequential Estimation, Sec. V.2 (Potter's
update of a root).
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError

SMALL = 32
"""The number of rows factored at a time in a Woodbury update; the fastest choice of 12 to 64."""

MANY = 64
"""If all regressions share more rows than this, the rows are summed and V is factored anew."""

HEAVY = 1e3
"""The largest Σ‖x‖²_{V⁻¹} of the rows of a Woodbury update: beyond it, too many digits are lost."""

UPDATES = 256.0
"""The root is factored anew before the sum of 1 + ‖x‖²_{V⁻¹} over its updates exceeds this."""

WORK = 1 << 18  # the most numbers in a work array of `factors`, so that they stay in cache

ILL = 1e11
"""There is a notice if Σx² of a feature is more than this many times the part of it that λ and the
other features leave unexplained: rounding of θ may then exceed the rule of ties; see `ties`."""

_warn = cache(logging.getLogger("fairbandit").warning)  # once in a process


class Regression(NamedTuple):
    """The regression of each replica, and the sums that it solves.

    Attributes:
        gram: G, (B, d + 1, d + 1).
        updates: the sum of 1 + ‖x‖²_{V⁻¹} over updates of the root since it was factored.
        theta: V⁻¹b, (B, d).
        root: F with FFᵀ = V⁻¹, (B, d, d).
        log_det: ln det V, (B,).
    """

    gram: Tensor
    updates: float
    theta: Tensor
    root: Tensor
    log_det: Tensor

    @classmethod
    def of(cls, gram: Tensor) -> Regression:
        """Solves the regression of the sums G."""
        return cls(gram, 0.0, *solve(cholesky(gram), gram[..., 1:, 0]))

    def with_rows(self, rows: Tensor) -> Regression:
        """The regression with n ≥ 1 more rows [r x], (B, n, d + 1)."""
        gram = _with_squares(self.gram, rows)
        if rows.shape[1] == 1:
            x = rows[..., 1:]
            y = torch.bmm(x, self.root)
            square = y.square().sum(2, keepdim=True).add_(1)
            updates = self.updates + float(square.amax())
            if updates <= UPDATES:
                along = (self.root * y).sum(2, keepdim=True)  # a matrix product is slower
                residual = torch.baddbmm(rows[..., :1], x, self.theta[..., None], alpha=-1)
                theta = torch.addcmul(self.theta, along[..., 0], (residual / square)[..., 0])
                root = torch.addcmul(self.root, along / (square + square.sqrt()), y, value=-1)
                log_det = self.log_det + square[:, 0, 0].log()
                return Regression(gram, updates, theta, root, log_det)
        return Regression.of(gram)

    def after(self, rows: Tensor, at: list[int]) -> Regressions:
        """The regressions with the first i of n more rows, for U ascending numbers i."""
        if (shared := at[0]) > MANY:  # summing the shared rows is cheaper
            rest = [i - shared for i in at]
            return self.with_rows(rows[:, :shared]).after(rows[:, shared:], rest)
        root, log_det = self.root.unsqueeze(1), self.log_det.unsqueeze(1)
        if not rows.shape[1]:
            return Regressions(self.theta.unsqueeze(1).expand(-1, len(at), -1), root, log_det, at)
        y = rows[..., 1:] @ self.root
        if not float(y.square().sum((1, 2)).amax()) <= HEAVY:
            solutions = [solve(lower, b) for lower, b in factors(self.gram, rows, at)]
            theta, root, log_det = (torch.cat(parts, 1) for parts in zip(*solutions, strict=True))
            return Regressions(theta, root, log_det, at)
        w, z, diagonal = _woodbury(self, rows, y)
        theta = up_to(self.theta, z * w, at)
        return Regressions(theta, root, log_det, at, w, diagonal)


class Regressions(NamedTuple):
    """U regressions: Vᵤ⁻¹ = FFᵀ, or FFᵀ − Σ_{j≤iᵤ} wⱼwⱼᵀ after a Woodbury update.

    Attributes:
        theta: (B, U, d).
        root: F, (B, 1, d, d), or (B, U, d, d) if regressions do not share it.
        log_det_start: ln det (FFᵀ)⁻¹, (B, 1) or (B, U).
        at: iᵤ, the number of rows that each regression includes.
        w: the update, (B, n, d); None if Vᵤ⁻¹ = FFᵀ.
        diagonal: l with ln det Vᵤ = ln det (FFᵀ)⁻¹ + 2Σ_{j≤iᵤ} ln lⱼ, (B, n); None like w.
        penalty: λ of each regression, (B, U), if the rewards choose it; see `evidence`.
    """

    theta: Tensor
    root: Tensor
    log_det_start: Tensor
    at: list[int]
    w: Tensor | None = None
    diagonal: Tensor | None = None
    penalty: Tensor | None = None

    @classmethod
    def of(cls, gram: Tensor) -> Regressions:
        """Solves the regressions of sums G, (B, U, d + 1, d + 1); raises like `cholesky`."""
        return cls(*solve(cholesky(gram), gram[..., 1:, 0]), [0] * gram.shape[1])

    @property
    def log_det(self) -> Tensor:
        """ln det V, (B, U)."""
        start = self.log_det_start.expand(-1, len(self.at))
        if self.diagonal is None:
            return start
        return start + 2 * up_to(torch.zeros_like(start[:, 0]), self.diagonal.log(), self.at)


def factors(gram: Tensor, rows: Tensor, at: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields Cholesky factors of V, (B, u, d, d), and b, (B, u, d), as `sums` yields their sums."""
    for total in sums(gram, rows, at):
        yield cholesky(total), total[..., 1:, 0]


def sums(gram: Tensor, rows: Tensor, at: list[int]) -> Iterator[Tensor]:
    """Yields G with the first i of the rows [r x], (B, n, d + 1), for some of the i at a time."""
    most = max(WORK // gram.numel(), 1)
    low = done = 0
    while low < len(at):
        start = at[low]
        gram, done = _with_squares(gram, rows[:, done:start]), start
        high = min(bisect_left(at, start + most, low), low + most)
        piece = rows[:, start : at[high - 1]]
        squares = piece[..., None] * piece[..., None, :]
        yield up_to(gram, squares, [i - start for i in at[low:high]])
        low = high


def cholesky(gram: Tensor) -> Tensor:
    """Lower triangular L with LLᵀ = V, (…, d, d), from sums G, (…, d + 1, d + 1)."""
    lower, info = torch.linalg.cholesky_ex(gram[..., 1:, 1:])
    if bool(info.any()) or not math.isfinite(float(gram.sum())):
        raise FairbanditError(
            "ridge regression broke down: V = Σ xxᵀ + λI is not finite or not positive definite in "
            "double precision; use contexts of a smaller scale or a larger regularization (λ)"
        )
    squares, left = (part.diagonal(dim1=-2, dim2=-1) for part in (gram, lower))
    if float((squares[..., 1:] / left.square()).amax()) > ILL:
        _warn(
            "the features are almost collinear in double precision, like features with a large "
            "offset or scale: rounding may decide between candidates, and decisions may depend on "
            "the processor; standardise the features, or use a larger regularization (λ)"
        )
    return lower


def solve(lower: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """θ (…, d), F = L⁻ᵀ (…, d, d) and ln det V (…), from L and b."""
    theta = torch.cholesky_solve(b[..., None], lower)[..., 0]
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    root = torch.linalg.solve_triangular(lower.mT, identity, upper=True)
    return theta, root, 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _woodbury(start: Regression, rows: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """W, z and the diagonal of a Woodbury update with rows X, given Y = XF: θᵢ = θ + Σ_{j≤i} zⱼwⱼ.

    LLᵀ = I + YYᵀ, [A z] = L⁻¹[Y r − Xθ], W = AFᵀ, and the third result is the diagonal of L.
    `SMALL` rows are solved at a time; before the next rows, Y(AᵀA) is subtracted from Y, and
    Y(Aᵀz) from r − Xθ.
    """
    residual = torch.baddbmm(rows[..., :1], rows[..., 1:], start.theta[..., None], alpha=-1)
    solved, diagonals, taken = list[Tensor](), list[Tensor](), y.new_zeros(1)
    right_sides = torch.cat([y, residual], 2).split(SMALL, 1)
    for right, piece in zip(right_sides, y.split(SMALL, 1), strict=True):
        if solved:
            taken = taken + solved[-1][..., :-1].mT @ solved[-1]
            right = torch.baddbmm(right, piece, taken, alpha=-1)
        gram = right[..., :-1] @ piece.mT
        gram.diagonal(dim1=1, dim2=2).add_(1)
        lower, _ = torch.linalg.cholesky_ex(gram)
        solved.append(torch.linalg.solve_triangular(lower, right, upper=False))
        diagonals.append(lower.diagonal(dim1=1, dim2=2))
    solution = torch.cat(solved, 1)
    w = solution[..., :-1] @ start.root.mT
    return w, solution[..., -1:], torch.cat(diagonals, 1)


def _with_squares(gram: Tensor, rows: Tensor) -> Tensor:
    if rows.shape[1] == 1:  # many times as fast as the general product
        return torch.addcmul(gram, rows.mT, rows)
    return torch.baddbmm(gram, rows.mT, rows)


def up_to(start: Tensor, steps: Tensor, at: list[int]) -> Tensor:
    """The start (B, …) plus the first i of n steps (B, n, …), for U numbers i: (B, U, …)."""
    if not steps.shape[1]:
        return start[:, None].expand(-1, len(at), *start.shape[1:])
    sums = torch.cat([start[:, None], steps], 1).cumsum(1)
    first, u = at[0], len(at)
    return sums[:, first : first + u] if at == list(range(first, first + u)) else sums[:, at]
