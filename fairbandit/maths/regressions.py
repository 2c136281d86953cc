"""Ridge regressions on rows [r x], solved after the first i of them for many i at once.

All sums are one matrix, G = Σ [r x]ᵀ[r x] + diag(0, λ, …, λ). It holds V = Σ xxᵀ + λI, b = Σ r x
and Σ r². A regression is solved by the Cholesky factor of V. Further rows that V covers already are
taken in by the formula of Sherman, Morrison and Woodbury; where it would lose digits, V is factored
after each row.

Reference: Bierman, Factorization Methods for Discrete Sequential Estimation, Sec. V.2 (Potter's
update of a root).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError

SMALL = 32
"""Rows that are factored at a time in a Woodbury update; it was the fastest of 12 to 64."""

MANY = 64
"""More rows that all regressions have are summed, and V is factored anew."""

HEAVY = 1e3
"""No Woodbury update takes in rows with a larger Σ‖x‖²_{V⁻¹}: it would lose too many digits."""

UPDATES = 256.0
"""The root is factored anew before the sum of 1 + ‖x‖²_{V⁻¹} over its updates exceeds this."""

WORK = 1 << 18
"""Numbers in the largest work array of `factors`: they stay in cache."""


class Regression(NamedTuple):
    """One regression for each replica, or several, (B, U, …), and the sums that it solves.

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
        """The regression that sums G give.

        Raises:
            FairbanditError: sums that are not finite, or a V that is not positive definite.
        """
        return cls(gram, 0.0, *_solve(cholesky(gram), gram[..., 1:, 0]))

    def with_rows(self, rows: Tensor) -> Regression:
        """The regression with n ≥ 1 more rows [r x], (B, n, d + 1)."""
        gram = _with_squares(self.gram, rows)
        if rows.shape[1] == 1:
            x = rows[..., 1:]
            y = torch.bmm(x, self.root)
            square = y.square().sum(2, keepdim=True).add_(1)
            updates = self.updates + float(square.amax())
            if updates <= UPDATES:
                along = (self.root * y).sum(2, keepdim=True)  # as a matrix product it is slow
                missed = torch.baddbmm(rows[..., :1], x, self.theta[..., None], alpha=-1)
                theta = torch.addcmul(self.theta, along[..., 0], (missed / square)[..., 0])
                root = torch.addcmul(self.root, along / (square + square.sqrt()), y, value=-1)
                log_det = self.log_det + square[:, 0, 0].log()
                return Regression(gram, updates, theta, root, log_det)
        return Regression.of(gram)

    def after(self, rows: Tensor, at: list[int]) -> Regressions:
        """The regressions with the first i of n more rows, for each i of U ascending numbers."""
        if (every := at[0]) > MANY:  # rows in all of them are cheaper to sum
            rest = [i - every for i in at]
            return self.with_rows(rows[:, :every]).after(rows[:, every:], rest)
        if not rows.shape[1]:
            theta = self.theta[:, None].expand(-1, len(at), -1)
            return Regressions(self, rows, at, theta, self.root[:, None], self.log_det[:, None])
        y = rows[..., 1:] @ self.root
        if not float(y.square().sum((1, 2)).amax()) <= HEAVY:
            each = [_solve(lower, b) for lower, b in factors(self.gram, rows, at)]
            theta, root, log_det = (torch.cat(parts, 1) for parts in zip(*each, strict=True))
            return Regressions(self, rows, at, theta, root, log_det)
        update = _woodbury(self, rows, y)
        theta = _up_to(self.theta, update.z * update.w, at)
        return Regressions(self, rows, at, theta, self.root[:, None], self.log_det[:, None], update)


class Update(NamedTuple):
    """A Woodbury update: Vᵢ⁻¹ = V⁻¹ − Σ_{j≤i} wⱼwⱼᵀ and θᵢ = θ + Σ_{j≤i} zⱼwⱼ.

    Attributes:
        w: (B, n, d).
        z: (B, n, 1).
        diagonal: ln det Vᵢ = ln det V + 2Σ_{j≤i} ln of these, (B, n).
    """

    w: Tensor
    z: Tensor
    diagonal: Tensor


@dataclass(eq=False)
class Regressions:
    """U regressions: Vᵤ⁻¹ = FFᵀ, or FFᵀ − Σ_{j≤iᵤ} wⱼwⱼᵀ where there is an update.

    Attributes:
        start: the regression before the rows.
        rows: n further rows [r x], (B, n, d + 1); None if `start` holds all U regressions.
        at: iᵤ, how many of them each regression includes.
        theta: (B, U, d).
        root: F, (B, 1, d, d), or (B, U, d, d) where there is one for each.
        update: w and more; None where F says all.
    """

    start: Regression
    rows: Tensor | None
    at: list[int]
    theta: Tensor
    root: Tensor
    _log_det: Tensor
    update: Update | None = None

    @classmethod
    def of(cls, gram: Tensor) -> Regressions:
        """The regressions that sums G give, (B, U, d + 1, d + 1); raises as `cholesky`."""
        each = Regression.of(gram)
        return cls(each, None, [0] * gram.shape[1], each.theta, each.root, each.log_det)

    @property
    def log_det(self) -> Tensor:
        """ln det V, (B, U)."""
        start = self._log_det.expand(-1, len(self.at))
        if self.update is None:
            return start
        return start + 2 * _up_to(
            torch.zeros_like(start[:, 0]), self.update.diagonal.log(), self.at
        )

    @property
    def reward_norm(self) -> Tensor:
        """‖r‖, (B, U)."""
        squares = self.start.gram[..., 0, 0]
        if self.rows is not None:
            squares = _up_to(squares, self.rows[..., 0].square(), self.at)
        return squares.sqrt()

    @property
    def condition(self) -> Tensor:
        """A bound of the condition number of V, (B, U): ‖F‖² times the trace of V."""
        trace = self.start.gram.diagonal(dim1=-2, dim2=-1)[..., 1:].sum(-1)
        if self.rows is not None:
            trace = _up_to(trace, self.rows[..., 1:].square().sum(2), self.at)
        return self.root.square().sum((2, 3)) * trace

    @property
    def largest(self) -> tuple[float, float, float]:
        """Upper bounds of ‖F‖, `condition` and `reward_norm` of all regressions and replicas."""
        squares = self.start.gram.diagonal(dim1=-2, dim2=-1)
        if self.rows is not None:
            squares = squares + self.rows.square().sum(1)
        reward, *own = squares.flatten(0, -2).amax(0).clamp(min=0).tolist()
        root = float(torch.linalg.vector_norm(self.root, dim=(2, 3)).max())
        return root, root**2 * sum(own), math.sqrt(reward)


def factors(gram: Tensor, rows: Tensor, at: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """The Cholesky factors of V, and b, with the first i of some rows, for each i of some numbers.

    Args:
        gram: G without the rows, (B, d + 1, d + 1).
        rows: [r x], (B, n, d + 1).
        at: U ascending numbers of rows, at most n.

    Yields:
        Lower triangular L with LLᵀ = V, (B, u, d, d), and b, (B, u, d), for some u at a time.

    Raises:
        FairbanditError: sums that are not finite, or a V that is not positive definite.
    """
    most = max(WORK // gram.numel(), 1)
    low = done = 0
    while low < len(at):
        start = at[low]
        gram, done = _with_squares(gram, rows[:, done:start]), start
        high = min(bisect_left(at, start + most, low), low + most)
        some = rows[:, start : at[high - 1]]
        squares = some[..., None] * some[..., None, :]
        sums = _up_to(gram, squares, [i - start for i in at[low:high]])
        yield cholesky(sums), sums[..., 1:, 0]
        low = high


def cholesky(gram: Tensor) -> Tensor:
    """Lower triangular L with LLᵀ = V, (…, d, d), of sums G, (…, d + 1, d + 1).

    Raises:
        FairbanditError: sums that are not finite, or a V that is not positive definite.
    """
    lower, info = torch.linalg.cholesky_ex(gram[..., 1:, 1:])
    if bool(info.any()) or not math.isfinite(float(gram.sum())):
        raise FairbanditError(
            "ridge regression broke down: V = Σ xxᵀ + λI is not finite or not positive definite in "
            "double precision; use contexts of a smaller scale or a larger regularization (λ)"
        )
    return lower


def _solve(lower: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """θ (…, d), F = L⁻ᵀ (…, d, d) and ln det V (…), of L and b."""
    theta = torch.cholesky_solve(b[..., None], lower)[..., 0]
    one = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    root = torch.linalg.solve_triangular(lower.mT, one, upper=True)
    return theta, root, 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _woodbury(start: Regression, rows: Tensor, y: Tensor) -> Update:
    """The update by some rows X, with Y = XF.

    LLᵀ = I + YYᵀ, [A z] = L⁻¹[Y r − Xθ] and W = AFᵀ; the diagonal is that of L. `SMALL` rows are
    solved at a time: of the next ones, Y(AᵀA) is subtracted from Y, and Y(Aᵀz) from r − Xθ.
    """
    missed = torch.baddbmm(rows[..., :1], rows[..., 1:], start.theta[..., None], alpha=-1)
    solved, diagonals, taken = list[Tensor](), list[Tensor](), y.new_zeros(1)
    wanted = torch.cat([y, missed], 2).split(SMALL, 1)
    for left, some in zip(wanted, y.split(SMALL, 1), strict=True):
        if solved:
            taken = taken + solved[-1][..., :-1].mT @ solved[-1]
            left = torch.baddbmm(left, some, taken, alpha=-1)
        gram = left[..., :-1] @ some.mT
        gram.diagonal(dim1=1, dim2=2).add_(1)
        lower, _ = torch.linalg.cholesky_ex(gram)
        solved.append(torch.linalg.solve_triangular(lower, left, upper=False))
        diagonals.append(lower.diagonal(dim1=1, dim2=2))
    both = torch.cat(solved, 1)
    return Update(both[..., :-1] @ start.root.mT, both[..., -1:], torch.cat(diagonals, 1))


def _with_squares(gram: Tensor, rows: Tensor) -> Tensor:
    """G with further rows, (B, n, d + 1)."""
    if rows.shape[1] == 1:  # many times as fast as the general product
        return torch.addcmul(gram, rows.mT, rows)
    return torch.baddbmm(gram, rows.mT, rows)


def _up_to(start: Tensor, steps: Tensor, at: list[int]) -> Tensor:
    """A start (B, …) plus the first i of n steps (B, n, …), for each i: (B, U, …)."""
    if not steps.shape[1]:
        return start[:, None].expand(-1, len(at), *start.shape[1:])
    sums = torch.cat([start[:, None], steps], 1).cumsum(1)
    first, u = at[0], len(at)
    return sums[:, first : first + u] if at == list(range(first, first + u)) else sums[:, at]
