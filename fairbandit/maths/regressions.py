"""Ridge regressions on rows [r x], solved after the first i of them for many i at once.

All sums are one matrix, G = Σ [r x]ᵀ[r x] + diag(0, λ, …, λ). It holds V = Σ xxᵀ + λI, b = Σ r x
and Σ r². A regression is solved by the Cholesky factor of V. Further rows that V covers already are
taken in by the formula of Sherman, Morrison and Woodbury; where it would lose digits, V is factored
after each row.

**Rounding.** Errors are measured by residuals, so that they hold however θ̂ and F were computed.
Let γ be the roundoff of the longest chain of operations, p = √diag(V⁻¹), D = √diag(G), and s the
sum of pᵢDᵢ over the features. By the inequality of Cauchy and Schwarz, sums are off by
|ΔG|ᵢⱼ ≤ γDᵢDⱼ. So are terms of the residual ρ = b − Vθ̂, by γDᵢ⟨D, |[−1 θ̂]|⟩. Hence
|θ̂ − θ|ᵢ = |V⁻¹(ρ + …)|ᵢ ≤ pᵢ(⟨p, |ρ|⟩ + γs⟨D, |[−1 θ̂]|⟩). Likewise, with E = FᵀVF − I, ‖xF‖² is
‖x‖² in the norm of V⁻¹ up to a factor 1 ± (‖E‖ + γs²), and ‖xF‖ is computed up to 2γs⟨p, |x|⟩.
Terms of second order are left out; γ counts each operation as eps, twice the unit roundoff.

References: Higham, Accuracy and Stability of Numerical Algorithms, Sec. 3.5, 8.1 and 10.1; Bierman,
Factorization Methods for Discrete Sequential Estimation, Sec. V.2 (Potter's update of a root).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
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
            y = x @ self.root
            square = (y @ y.mT).add_(1)
            if float(square.amax()) <= LIGHT:
                along = self.root @ y.mT
                missed = torch.baddbmm(rows[..., :1], x, self.theta[..., None], alpha=-1)
                theta = self.theta + (along * (missed / square))[..., 0]
                root = torch.addcmul(self.root, along / (square + square.sqrt()), y, value=-1)
                log_det = self.log_det + square[:, 0, 0].log()
                return Regression(gram, depth, self.updates + 1, theta, root, log_det)
        return Regression.of(gram, depth)

    def after(self, rows: Tensor, at: list[int]) -> Regressions:
        """The regressions with the first i of n more rows, for each i of U ascending numbers."""
        if not rows.shape[1]:
            theta, log_det = (one[:, None].expand(-1, len(at), *one.shape[1:]) for one in self[3::2])
            return Regressions(self, rows, at, theta, self.root[:, None], log_det=log_det)
        spread = 1 + (rows[..., 1:] @ self.root).square_().sum((1, 2))
        if not float(spread.amax()) <= HEAVY:
            each = [_solve(lower, b) for lower, b in factors(self.gram, rows, at)]
            theta, root, log_det = (torch.cat(part, 1) for part in zip(*each, strict=True))
            return Regressions(self, rows, at, theta, root, log_det=log_det)
        starts, w, z, diagonal = _woodbury(self, rows)
        theta = _up_to(self.theta, z * w, at)
        return Regressions(self, rows, at, theta, self.root[:, None], w, diagonal, starts, spread)


@dataclass(eq=False)
class Regressions:
    """U regressions: Vᵤ⁻¹ = FFᵀ − Σ_{j≤iᵤ} wⱼwⱼᵀ.

    Attributes:
        start: the regression before the rows.
        rows: n further rows [r x], (B, n, d + 1).
        at: iᵤ, how many of them each regression includes.
        theta: (B, U, d).
        root: F, (B, 1, d, d); or (B, U, d, d) where there is one for each, and no w.
        steps: w, (B, n, d); None if there are none.
        log_det: ln det V, (B, U).
    """

    start: Regression
    rows: Tensor
    at: list[int]
    theta: Tensor
    root: Tensor
    steps: Tensor | None = None
