"""Ridge regressions on rows [r x], solved after the first i of them for many i at once.

All sums are one matrix, G = Σ [r x]ᵀ[r x] + diag(0, λ, …, λ). It holds V = Σ xxᵀ + λI, b = Σ r x
and Σ r². A regression is solved by the Cholesky factor of V. Further rows that V covers already are
taken in by the formula of Sherman, Morrison and Woodbury; where it would lose digits, V is factored
after each row.

**Rounding.** Let γ be the roundoff of the longest chain of operations, each counted as eps, p the
root of the diagonal of V⁻¹, D that of G, s = Σpᵢ√Vᵢᵢ, and T = ⟨D, |[−1 θ]|⟩. By the inequality of
Cauchy and Schwarz, sums are off by |ΔG|ᵢⱼ ≤ γDᵢDⱼ, and a Cholesky factor is that of a matrix as
near. If θ is off by e in the norm of V, then θᵢ is off by at most pᵢe.

- A solution has e ≤ γsT. After updates of the root, ⟨p, |b − Vθ|⟩ + γsT.
- A Woodbury update by n rows, with t = 1 + Σ‖x‖²_{V⁻¹} and z as in `Update`, adds no more than
  γ((2 + s)T + (n + t + s + s²)‖z‖), since r − Xθ and XV⁻¹Xᵀ are off by γT and γt, and V⁻¹Xᵀ by
  γ(s + s²), which is multiplied by residuals, of the norm ‖z‖ at most.
- ‖x‖²_{V⁻¹} = ‖xF‖² is off by at most γs²‖xF‖² where sums and factors are, and by 4γs⟨p, |x|⟩‖xF‖
  where the product is.

Terms of second order are left out.

References: Higham, Accuracy and Stability of Numerical Algorithms, Sec. 3.5, 8.1 and 10.1; Bierman,
Factorization Methods for Discrete Sequential Estimation, Sec. V.2 (Potter's update of a root).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError

EPS = torch.finfo(torch.float64).eps

SMALL = 64
"""Rows of one Woodbury update; the cost of a row grows with the square of their number."""

HEAVY = 1e3
"""No Woodbury update takes in rows with a larger 1 + Σ‖x‖²_{V⁻¹}: it would lose too many digits."""

LIGHT = 2.0
"""The same for updates of a root, which follow each other."""

UPDATES = 256
"""So many updates of a root may follow each other."""

WORK = 1 << 18
"""Numbers in the largest work array of `factors`: they stay in cache."""


class Regression(NamedTuple):
    """One regression for each replica, and the sums that it solves.

    Attributes:
        gram: G, (B, d + 1, d + 1).
        depth: each entry of G is the result of at most so many roundings in a chain.
        updates: how many updates of the root followed each other.
        theta: V⁻¹b, (B, d).
        root: F with FFᵀ = V⁻¹, (B, d, d).
        log_det: ln det V, (B,).
    """

    gram: Tensor
    depth: int
    updates: int
    theta: Tensor
    root: Tensor
    log_det: Tensor

    @classmethod
    def of(cls, gram: Tensor, depth: int) -> Regression:
        """The regression that sums G give.

        Raises:
            FairbanditError: sums that are not finite, or a V that is not positive definite.
        """
        return cls(gram, depth, 0, *_solve(cholesky(gram), gram[:, 1:, 0]))

    def with_rows(self, rows: Tensor) -> Regression:
        """The regression with n ≥ 1 more rows [r x], (B, n, d + 1)."""
        gram, n = _with_squares(self.gram, rows), rows.shape[1]
        depth, x = max(self.depth, n) + 1, rows[..., 1:]
        if n == 1 and self.updates < UPDATES:
            y = torch.bmm(x, self.root)
            square = y.square().sum(2, keepdim=True).add_(1)
            if float(square.amax()) <= LIGHT:
                along = (self.root * y).sum(2, keepdim=True)  # as a matrix product it is slow
                missed = torch.baddbmm(rows[..., :1], x, self.theta[..., None], alpha=-1)
                theta = torch.addcmul(self.theta, along[..., 0], (missed / square)[..., 0])
                root = torch.addcmul(self.root, along / (square + square.sqrt()), y, value=-1)
                log_det = self.log_det + square[:, 0, 0].log()
                return Regression(gram, depth, self.updates + 1, theta, root, log_det)
        return Regression.of(gram, depth)

    def residual(self) -> Tensor:
        """b − Vθ, (B, d)."""
        b, v = self.gram[:, 1:, :1], self.gram[:, 1:, 1:]
        return torch.baddbmm(b, v, self.theta[..., None], alpha=-1)[..., 0]

    def after(self, rows: Tensor, at: list[int]) -> Regressions:
        """The regressions with the first i of n more rows, for each i of U ascending numbers."""
        if (every := at[0]) > SMALL:  # rows in all of them are cheaper to sum
            rest = [i - every for i in at]
            return self.with_rows(rows[:, :every]).after(rows[:, every:], rest)
        if not rows.shape[1]:
            theta = self.theta[:, None].expand(-1, len(at), -1)
            return Regressions(self, rows, at, theta, self.root[:, None], self.log_det[:, None])
        y = rows[..., 1:] @ self.root
        spread = y.square().sum((1, 2)).add_(1)
        if not float(spread.amax()) <= HEAVY:
            each = [_solve(lower, b) for lower, b in factors(self.gram, rows, at)]
            theta, root, log_det = (torch.cat(parts, 1) for parts in zip(*each, strict=True))
            return Regressions(self, rows, at, theta, root, log_det)
        update = _woodbury(self, rows, y, spread)
        theta = _up_to(self.theta, update.z * update.w, at)
        return Regressions(self, rows, at, theta, self.root[:, None], self.log_det[:, None], update)


class Update(NamedTuple):
    """A Woodbury update: Vᵢ⁻¹ = V⁻¹ − Σ_{j≤i} wⱼwⱼᵀ and θᵢ = θ + Σ_{j≤i} zⱼwⱼ.

    Attributes:
        w: (B, n, d).
        z: (B, n, 1).
        diagonal: ln det Vᵢ = ln det V + 2Σ_{j≤i} ln of these, (B, n).
        starts: the regressions that every `SMALL` rows begin with.
        spread: t = 1 + Σ‖x‖²_{V⁻¹}, (B,).
    """

    w: Tensor
    z: Tensor
    diagonal: Tensor
    starts: list[Regression]
    spread: Tensor

    @property
    def sizes(self) -> tuple[Tensor, Tensor, Tensor]:
        """t, and the sums of s and of s² over the regressions that it begins with, (B, 1, 1)."""
        every = [(_norms(one.root) * _sides(one.gram)).sum(1) for one in self.starts]
        s = torch.stack(every, 1)
        t, linear, square = (
            one[:, None, None] for one in (self.spread, s.sum(1), s.square().sum(1))
        )
        return t, linear, square


@dataclass(eq=False)
class Regressions:
    """U regressions: Vᵤ⁻¹ = FFᵀ, or FFᵀ − Σ_{j≤iᵤ} wⱼwⱼᵀ where there is an update.

    Attributes:
        start: the regression before the rows.
        rows: n further rows [r x], (B, n, d + 1).
        at: iᵤ, how many of them each regression includes.
        theta: (B, U, d).
        root: F, (B, 1, d, d), or (B, U, d, d) where there is one for each.
        update: w and more; None where F says all.
    """

    start: Regression
    rows: Tensor
    at: list[int]
    theta: Tensor
    root: Tensor
    _log_det: Tensor
    update: Update | None = None

    @property
    def log_det(self) -> Tensor:
        """ln det V, (B, U)."""
        start = self._log_det.expand(-1, len(self.at))
        if self.update is None:
            return start
        return start + 2 * _up_to(
            torch.zeros_like(start[:, 0]), self.update.diagonal.log(), self.at
        )

    def theta_error(self) -> Tensor:
        """How far rounding may have moved θ, and a product with θ: (B, U, d)."""
        (p, sides, s), start, update = self._sizes, self.start, self.update
        size = self.theta.abs()
        through = (sides[..., 1:] * size).sum(2, keepdim=True).add_(sides[..., :1])
        off = self._gamma * s * through
        if start.updates:
            off += (p * start.residual().abs()[:, None]).sum(2, keepdim=True)
        if update is not None:
            t, linear, square = update.sizes
            gain = self._gamma * (self.rows.shape[1] + t + linear + square) + self._drift * s
            off += self._gamma * (linear + 2) * through + gain * _norms(update.z.mT)[..., None]
        return torch.addcmul(p.shape[2] * EPS * size, p, off)

    def norm_error(self) -> tuple[Tensor, Tensor]:
        """f (B, U or 1) and c (B, U or 1, d): ‖x‖_{V⁻¹} is off by at most f‖x‖_{V⁻¹} + ⟨c, |x|⟩.

        An update subtracts from ‖xF‖² what is off by (n + t)γ‖xF‖², and leaves ‖xF‖²/t or more.
        """
        p, _, s = self._sizes
        if self.update is None:
            relative, absolute = s.square() + 1, 2 * s
        else:
            t, linear, square = self.update.sizes
            relative = square + t * (self.rows.shape[1] + t)
            absolute = 2 * t.sqrt() * linear
        relative = (self._gamma * relative + self._drift * s)[..., 0] / 2
        return relative, self._gamma * absolute * p

    @property
    def _gamma(self) -> float:
        return EPS * (self.start.depth + 2 * (self.rows.shape[1] + self.theta.shape[2]) + 8)

    @property
    def _drift(self) -> float:
        """‖FᵀVF − I‖/s may be this after updates of the root, by 4(d + 8)eps each."""
        return 4 * EPS * (self.theta.shape[2] + 8) * self.start.updates

    @cached_property
    def _sizes(self) -> tuple[Tensor, Tensor, Tensor]:
        """p (B, U or 1, d), D (B, U or 1, d + 1) and s (B, U or 1, 1), or more."""
        p, squares = _norms(self.root), self.start.gram.diagonal(dim1=1, dim2=2)[:, None]
        if self.update is not None:
            squares = squares + self.rows.square().sum(1, keepdim=True)
        elif self.rows.shape[1]:
            squares = _up_to(squares[:, 0], self.rows.square(), self.at)
        sides = squares.sqrt()
        return p, sides, (p * sides[..., 1:]).sum(2, keepdim=True)


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


def _woodbury(start: Regression, rows: Tensor, y: Tensor, spread: Tensor) -> Update:
    """The update by some rows X, with Y = XF, `SMALL` rows at a time.

    LLᵀ = I + YYᵀ, W = L⁻¹YFᵀ and z = L⁻¹(r − Xθ); the diagonal is that of L.
    """
    parts, starts = list[tuple[Tensor, Tensor, Tensor]](), [start]
    for low in range(0, rows.shape[1], SMALL):
        some = rows[:, low : low + SMALL]
        if low:
            start = start.with_rows(rows[:, low - SMALL : low])
            starts.append(start)
            y = some[..., 1:] @ start.root
        y = y[:, :SMALL]
        gram = y @ y.mT
        gram.diagonal(dim1=1, dim2=2).add_(1)
        lower, _ = torch.linalg.cholesky_ex(gram)
        missed = torch.baddbmm(some[..., :1], some[..., 1:], start.theta[..., None], alpha=-1)
        both = torch.linalg.solve_triangular(lower, torch.cat([y, missed], 2), upper=False)
        w, z = both[..., :-1] @ start.root.mT, both[..., -1:]
        parts.append((w, z, lower.diagonal(dim1=1, dim2=2)))
    w, z, diagonal = (torch.cat(pieces, 1) for pieces in zip(*parts, strict=True))
    return Update(w, z, diagonal, starts, spread)


def _with_squares(gram: Tensor, rows: Tensor) -> Tensor:
    """G with further rows, (B, n, d + 1)."""
    if rows.shape[1] == 1:  # many times as fast as the general product
        return torch.addcmul(gram, rows.mT, rows)
    return torch.baddbmm(gram, rows.mT, rows)


def _up_to(start: Tensor, steps: Tensor, at: list[int]) -> Tensor:
    """A start (B, …) plus the first i of n steps (B, n, …), for each i: (B, U, …)."""
    sums = torch.cat([start[:, None], steps], 1).cumsum(1)
    first, u = at[0], len(at)
    return sums[:, first : first + u] if at == list(range(first, first + u)) else sums[:, at]


def _norms(root: Tensor) -> Tensor:
    """p, (…, d)."""
    return root.square().sum(-1).sqrt_()


def _sides(gram: Tensor) -> Tensor:
    """D of the features, (B, d)."""
    return gram.diagonal(dim1=1, dim2=2)[:, 1:].sqrt()
