"""Ridge regressions on rows [r x], solved after the first i of them for many i at once.

All sums are one matrix, G = Σ [r x]ᵀ[r x] + diag(0, λ, …, λ). It holds V = Σ xxᵀ + λI, b = Σ r x
and Σ r². A regression is solved by the Cholesky factor of V. Some further rows are taken in by the
formula of Sherman, Morrison and Woodbury, or, where these would lose digits, by a factor for each i.

**Rounding.** Let u be the unit roundoff, γ_k = ku/(1 − ku), p = √diag(V⁻¹), D = √diag(G), and s the
sum of pᵢDᵢ over the features. By the inequality of Cauchy and Schwarz, sums of n roundings in a
chain have errors |ΔG|ᵢⱼ ≤ γ_{n+1}DᵢDⱼ, and a Cholesky factor is that of a matrix as near, with γ_{d+1}. So
θ̂ with the computed residual ρ = b − Vθ̂, which is off by γ_{n+d}Dᵢ⟨D, |[−1 θ̂]|⟩ at most, has
|θ̂ − θ|ᵢ = |V⁻¹(ρ + …)|ᵢ ≤ pᵢ⟨p, |ρ| + γ_k D⟨D, |[−1 θ̂]|⟩⟩ however it was computed. Likewise
‖x‖_{V⁻¹} is off by γ_k(s²‖x‖_{V⁻¹}/2 + 2s⟨p, |x|⟩) at most; ‖x‖_{V⁻¹} ≤ ⟨p, |x|⟩. Terms of second
order are left out, and eps = 2u stands for u.

Reference: Higham, Accuracy and Stability of Numerical Algorithms, Sec. 3.5, 8.1 and 10.1.
"""

from __future__ import annotations

import math
from bisect import bisect_left
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
"""No Woodbury update takes in rows with a larger ‖x‖²_{V⁻¹}: it would lose too many digits."""

WORK = 1 << 18
"""Numbers in the largest work array of `factors`: they stay in cache."""


class Regression(NamedTuple):
    """One regression for each replica, and the sums that it solves.

    Attributes:
        gram: G, (B, d + 1, d + 1).
        depth: an entry of G is the result of at most so many roundings in a chain.
        theta: V⁻¹b, (B, d).
        root: F with FFᵀ = V⁻¹, upper triangular with a positive diagonal, (B, d, d).
    """

    gram: Tensor
    depth: int
    theta: Tensor
    root: Tensor

    @classmethod
    def of(cls, gram: Tensor, depth: int) -> Regression:
        """The regression that sums G give.

        Raises:
            FairbanditError: sums that are not finite, or a V that is not positive definite.
        """
        lower = cholesky(gram)
        theta = torch.cholesky_solve(gram[:, 1:, :1], lower)[..., 0]
        return cls(gram, depth, theta, inverse_root(lower))

    def with_rows(self, rows: Tensor) -> Regression:
        """The regression with n more rows [r x], (B, n, d + 1)."""
        if not (n := rows.shape[1]):
            return self
        return Regression.of(_with_squares(self.gram, rows), max(self.depth, n) + 1)

    def after(self, rows: Tensor, at: list[int]) -> Regressions:
        """The regressions with the first i of n more rows, for each i of U ascending numbers."""
        y = rows[..., 1:] @ self.root
        squares = y.square().sum(2)
        if not rows.shape[1] or float(squares.amax()) <= HEAVY:
            starts, w, z, logs = _woodbury(self, rows)
            theta = _up_to(self.theta, z * w, at)
            spread = 1 + squares.sum(1)
            return Regressions(self, rows, at, theta, self.root[:, None], w, logs, starts, spread)
        lower, b = factors(self.gram, rows, at)
        theta = torch.cholesky_solve(b[..., None], lower)[..., 0]
        none = rows[:, :0]
        return Regressions(
            self, rows, at, theta, inverse_root(lower), none[..., 1:], none[..., 0], [], None
        )


@dataclass(eq=False)
class Regressions:
    """U regressions: Vᵤ⁻¹ = FFᵀ − Σ_{j≤iᵤ} wⱼwⱼᵀ.

    Attributes:
        start: the regression before the rows.
        rows: n further rows [r x], (B, n, d + 1).
        at: iᵤ, how many of them each regression includes.
        theta: (B, U, d).
        root: F, (B, 1, d, d); or (B, U, d, d) where there is one for each, and no w.
        steps: w, (B, n, d), or (B, 0, d).
    """

    start: Regression
    rows: Tensor
    at: list[int]
    theta: Tensor
    root: Tensor
    steps: Tensor
    _logs: Tensor
    _starts: list[Regression]
    _spread: Tensor | None

    @property
    def log_det(self) -> Tensor:
        """ln det V, (B, U)."""
        start = -2 * self.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return start + _up_to(torch.zeros_like(start[:, 0]), self._logs, self.at)

    def theta_error(self) -> Tensor:
        """How far rounding may have moved θ, and a product with θ: (B, U, d)."""
        theta, gram, rows = self.theta, self.start.gram, self.rows
        both = torch.cat([-torch.ones_like(theta[..., :1]), theta], 2)
        residual = both @ gram[..., 1:]
        if rows.shape[1]:
            counts = torch.tensor(self.at, device=rows.device)[:, None]
            included = torch.arange(rows.shape[1], device=rows.device) < counts
            residual = residual + (both @ rows.mT * included) @ rows[..., 1:]
        sides = self._sides
        through = (sides * both.abs()).sum(2, keepdim=True)
        off = residual.abs() + self._rounding * sides[..., 1:] * through
        p = self._spreads
        return p * (p * off).sum(2, keepdim=True) + theta.shape[2] * EPS * theta.abs()

    def norm_error(self) -> Tensor:
        """c such that each ‖x‖_{V⁻¹} is off by at most ⟨c, |x|⟩, (B, U or 1, d).

        With Y = XF for the n rows X and t = 1 + Σ‖yⱼ‖², Woodbury's formula subtracts from
        ‖x‖²_{V⁻¹} what is off by (n + t)·γ_{n+d}·‖x‖²_{V⁻¹}, and leaves at least ‖x‖²_{V⁻¹}/t.
        """
        p, n = self._spreads, self.rows.shape[1]
        if self._spread is None:
            s = (p * self._sides[..., 1:]).sum(2, keepdim=True)
            return self._rounding * s * (s + 2) * p
        spread, total = self._spread[:, None, None], torch.zeros_like(p[..., :1])
        for start in self._starts:
            s = (_norms(start.root) * _sides(start.gram)[:, 1:]).sum(1)[:, None, None]
            total = total + s * (s + 2)
        return self._rounding * spread.sqrt() * (total + (n + spread) / 2) * p

    @property
    def _rounding(self) -> float:
        n, d = self.rows.shape[1], self.theta.shape[2]
        return EPS * (self.start.depth + 2 * n + d + 8)

    @cached_property
    def _spreads(self) -> Tensor:
        """p, or more: (B, U or 1, d)."""
        return _norms(self.root)

    @cached_property
    def _sides(self) -> Tensor:
        """D, (B, U, d + 1)."""
        squares = self.start.gram.diagonal(dim1=1, dim2=2)
        return _up_to(squares, self.rows.square(), self.at).sqrt()


def factors(gram: Tensor, rows: Tensor, at: list[int]) -> tuple[Tensor, Tensor]:
    """The Cholesky factors of V, and b, with the first i of some rows, for each i of some numbers.

    Args:
        gram: G without the rows, (B, d + 1, d + 1).
        rows: [r x], (B, n, d + 1).
        at: U ascending numbers of rows, at most n.

    Returns:
        Lower triangular L with LLᵀ = V, (B, U, d, d), and b, (B, U, d).

    Raises:
        FairbanditError: sums that are not finite, or a V that is not positive definite.
    """
    most = max(WORK // gram.numel(), 1)
    lower, b, low, done = [], [], 0, 0
    while low < len(at):
        start = at[low]
        gram, done = _with_squares(gram, rows[:, done:start]), start
        high = min(bisect_left(at, start + most, low), low + most)
        some = rows[:, start : at[high - 1]]
        squares = torch.cat([gram[:, None], some[..., None] * some[..., None, :]], 1)
        sums = squares.cumsum(1)[:, [i - start for i in at[low:high]]]
        lower.append(cholesky(sums))
        b.append(sums[..., 1:, 0])
        low = high
    return torch.cat(lower, 1), torch.cat(b, 1)


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


def inverse_root(lower: Tensor) -> Tensor:
    """F = L⁻ᵀ, (…, d, d)."""
    one = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return torch.linalg.solve_triangular(lower.mT, one, upper=True)


def _woodbury(start: Regression, rows: Tensor) -> tuple[list[Regression], Tensor, Tensor, Tensor]:
    """W (B, n, d), z (B, n, 1) and 2 ln Lⱼⱼ (B, n), and the regressions where updates begin.

    With rows X and P = V⁻¹, let LLᵀ = I + XPXᵀ, W = L⁻¹XP and z = L⁻¹(r − Xθ). After the first i
    rows, θᵢ = θ + Σ_{j≤i} zⱼwⱼ, Vᵢ⁻¹ = P − Σ_{j≤i} wⱼwⱼᵀ, ln det Vᵢ = ln det V + 2Σ_{j≤i} ln Lⱼⱼ.
    """
    some, x = rows[:, :SMALL], rows[:, :SMALL, 1:]
    if not some.shape[1]:
        return [start], x, some[..., :1], some[..., 0]
    y = x @ start.root
    gram = y @ y.mT
    gram.diagonal(dim1=1, dim2=2).add_(1)
    lower = torch.linalg.cholesky(gram)
    both = torch.cat([y, some[..., :1] - x @ start.theta[..., None]], 2)
    both = torch.linalg.solve_triangular(lower, both, upper=False)
    w, z = both[..., :-1] @ start.root.mT, both[..., -1:]
    logs = 2 * lower.diagonal(dim1=1, dim2=2).log()
    if rows.shape[1] <= SMALL:
        return [start], w, z, logs
    starts, *later = _woodbury(start.with_rows(some), rows[:, SMALL:])
    w, z, logs = (torch.cat(parts, 1) for parts in zip((w, z, logs), later, strict=True))
    return [start, *starts], w, z, logs


def _with_squares(gram: Tensor, rows: Tensor) -> Tensor:
    """G with further rows, (B, n, d + 1)."""
    if rows.shape[1] == 1:  # many times as fast as the general product
        return torch.addcmul(gram, rows.mT, rows)
    return torch.baddbmm(gram, rows.mT, rows)


def _up_to(start: Tensor, steps: Tensor, at: list[int]) -> Tensor:
    """A start (B, …) plus the first i of n steps (B, n, …), for each i: (B, U, …)."""
    first, n = start[:, None], steps.shape[1]
    if not n or at[-1] == 0:
        return first.expand(-1, len(at), *start.shape[1:])
    sums = first + steps.cumsum(1)
    if at == list(range(1, n + 1)):
        return sums
    return torch.cat([first, sums], 1)[:, at]


def _norms(root: Tensor) -> Tensor:
    return root.square().sum(-1).sqrt()


def _sides(gram: Tensor) -> Tensor:
    return gram.diagonal(dim1=1, dim2=2).sqrt()
