"""Ridge regressions on the first i of some rows, solved together for many i.

A Cholesky solve computes one regression from the sums V and b. A Woodbury update continues from a
solved regression, and is as accurate while V is well-conditioned. A QR solve uses the rows instead
of V and b, and stays accurate where V is ill-conditioned.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from fairbandit.maths.linear import add_outer, factor
from fairbandit.maths.roots import Root, root_of_rows

SMALL = 64
"""Rows of one factorisation; the cost of a row grows with the square of their number."""


class Solved(NamedTuple):
    """One regression for each replica.

    Attributes:
        theta: V⁻¹b, (B, d).
        log_det: ln det V, (B,).
        inverse: V⁻¹, (B, d, d).
    """

    theta: Tensor
    log_det: Tensor
    inverse: Tensor


class Downdated(NamedTuple):
    """V⁻¹ of U regressions in factored form: Vᵤ⁻¹ = P − Σ_{j≤nᵤ} wⱼwⱼᵀ.

    Attributes:
        inverse: P, one matrix for each replica, (B, d, d).
        steps: w, (B, n, d), of which regression u has the first nᵤ.
        counts: nᵤ ≤ n, (U,) int64.
    """

    inverse: Tensor
    steps: Tensor
    counts: Tensor


def cholesky_solve(V: Tensor, b: Tensor) -> Solved:
    """The regression of given sums, from the Cholesky factor of V.

    Args:
        V: (B, d, d).
        b: (B, d).

    Raises:
        FairbanditError: a V that is not positive definite in floating point.
    """
    lower = factor(V)
    log_det = 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    theta = torch.cholesky_solve(b[..., None], lower)[..., 0]
    return Solved(theta, log_det, torch.cholesky_inverse(lower))


class WoodburyUpdate:
    """Regressions with the first i of some further rows, continued from a solved regression.

    With rows X and P = V⁻¹, let LLᵀ = I + XPXᵀ, W = L⁻¹XP and z = L⁻¹(r − Xθ). After the first i
    rows, θᵢ = θ + Σ_{j≤i} zⱼwⱼ, Vᵢ⁻¹ = P − Σ_{j≤i} wⱼwⱼᵀ, ln det Vᵢ = ln det V + 2Σ_{j≤i} ln Lⱼⱼ:
    the formula of Sherman, Morrison and Woodbury for all i at once, `SMALL` rows at a time.

    Args:
        start: the solved regression.
        contexts: the rows X, (B, n, d).
        rewards: r, (B, n).
        at: U ascending numbers of rows, at most n.
    """

    def __init__(self, start: Solved, contexts: Tensor, rewards: Tensor, at: list[int]) -> None:
        self._start, self._at, self._n = start, at, contexts.shape[1]
        self._w, z, self._logs = _steps(start, contexts, rewards)
        self.theta, self._theta = self._up_to(start.theta, z * self._w)

    @cached_property
    def log_det(self) -> Tensor:
        """ln det V of the regressions, (B, U)."""
        return self._log_dets[0]

    @property
    def downdated(self) -> Downdated:
        """V⁻¹ of all regressions."""
        inverse, w = self._start.inverse, self._w
        if self._at == [self._n]:
            inverse, w = self.last.inverse, w[:, :0]
        return Downdated(inverse, w, torch.tensor(self._at, device=w.device))

    @cached_property
    def last(self) -> Solved:
        """The regression with all rows."""
        inverse = add_outer(self._start.inverse, self._w, self._w, -1)
        return Solved(self._theta, self._log_dets[1], inverse)

    @cached_property
    def _log_dets(self) -> tuple[Tensor, Tensor]:
        return self._up_to(self._start.log_det, self._logs)

    def _up_to(self, start: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """A start plus the first i of n steps, for each i asked for, and all: (B, U, …), (B, …)."""
        if self._n == 0:
            return start[:, None].expand(-1, len(self._at), *start.shape[1:]), start
        sums = start[:, None] + (steps if self._n == 1 else steps.cumsum(1))
        if self._at != list(range(1, self._n + 1)):
            every = torch.cat([start[:, None], sums], 1)
            return every[:, self._at], every[:, -1]
        return sums, sums[:, -1]


def _steps(start: Solved, contexts: Tensor, rewards: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """W (B, n, d), z (B, n, 1) and 2 ln Lⱼⱼ (B, n) of a Woodbury update."""
    first = _step(start, contexts[:, :SMALL], rewards[:, :SMALL])
    if contexts.shape[1] <= SMALL:
        return first
    w, z, _ = first
    theta, inverse = start.theta + (z * w).sum(1), add_outer(start.inverse, w, w, -1)
    rest = _steps(Solved(theta, start.log_det, inverse), contexts[:, SMALL:], rewards[:, SMALL:])
    both = zip(first, rest, strict=True)
    w, z, logs = (torch.cat(parts, 1) for parts in both)
    return w, z, logs


def _step(start: Solved, contexts: Tensor, rewards: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for few rows, by one factorisation."""
    theta, _, inverse = start
    n = contexts.shape[1]
    if n == 0:
        return contexts, rewards[..., None], rewards
    if n == 1:  # the factor is a square root, and a sum of products beats small matrix products
        projected = (inverse * contexts).sum(2)[:, None]
        missed = torch.baddbmm(rewards[..., None], contexts, theta[..., None], alpha=-1)
        square = torch.bmm(projected, contexts.transpose(1, 2)).add_(1)
        root = square.sqrt()
        return projected / root, missed / root, square[..., 0].log()
    projected = contexts @ inverse
    missed = rewards[..., None] - contexts @ theta[..., None]
    gram = projected @ contexts.transpose(1, 2)
    gram.diagonal(dim1=1, dim2=2).add_(1)
    lower = factor(gram)
    both = torch.cat([projected, missed], 2)
    both = torch.linalg.solve_triangular(lower, both, upper=False)
    return both[..., :-1], both[..., -1:], 2 * lower.diagonal(dim1=1, dim2=2).log()


class QRSolve:
    """Regressions with the first i of some further rows, from a triangular root of the others.

    The root [R z] of all rows [√λI 0; X r] gives RᵀR = V and θ = R⁻¹z. A rounding error ε changes θ
    by about ε(κ + κ²ρ), where κ ≤ ‖X‖/√λ is the condition number of [√λI; X] and
    ρ = ‖r − Xθ‖/(‖X‖·‖θ‖). A solve from V and b, whose condition number is κ², would change θ by
    εκ² whatever the residuals ρ.

    Args:
        root: [R z] of the rows so far, (B, d, d + 1).
        rows: the rows [X r], (B, n, d + 1).
        at: U ascending numbers of rows, at most n.

    Attributes:
        theta: V⁻¹b, (B, U, d).
        log_det: ln det V, (B, U).
        factor: F with FFᵀ = V⁻¹, (B, U, d, d).
        root: [R z] of all rows, (B, d, d + 1).

    Reference:
        Golub, Van Loan, Matrix Computations, Sec. 5.3 and 6.1.4; Higham, Accuracy and Stability
        of Numerical Algorithms, Sec. 20.1.
    """

    def __init__(self, root: Tensor, rows: Tensor, at: list[int]) -> None:
        lots = [at[low : low + SMALL] for low in range(0, len(at), SMALL)]
        roots = [_with_rows(root, rows, lot) for lot in lots]
        self.root = roots[-1].rows[:, -1]
        solved = [_solve(one) for one in roots]
        self.theta, self.log_det, self.factor = (
            torch.cat(parts, 1) for parts in zip(*solved, strict=True)
        )

    @property
    def last(self) -> Solved:
        """The last of the regressions."""
        factor = self.factor[:, -1]
        return Solved(self.theta[:, -1], self.log_det[:, -1], factor @ factor.transpose(-1, -2))


def _with_rows(root: Tensor, rows: Tensor, at: list[int]) -> Root:
    """The roots of [R z; X r] with the first i rows, for each i asked for, (B, U, d, d + 1).

    A feature that is 0 in all rows has one entry of R, alone in its row and its column. Rounding
    would put others beside it, and contexts that tie since θ is 0 there would not tie any more.
    """
    last = torch.tensor(at, device=rows.device)[:, None]
    there = torch.arange(rows.shape[1], device=rows.device) < last
    some = rows[:, None] * there[..., None]
    stacked = torch.cat([some, root[:, None].expand(-1, len(at), -1, -1)], 2)
    found = root_of_rows(stacked)
    if found.order is not None:
        return found
    alone = ((stacked[..., :-1] != 0).sum(2) == 1) & ((root != 0).sum(2) == 1)[:, None]
    kept = found.rows.masked_fill(alone[..., None], 0)
    kept[..., :-1].masked_fill_(alone[..., None, :], 0)
    kept.diagonal(dim1=-2, dim2=-1).add_(root.diagonal(dim1=1, dim2=2)[:, None] * alone)
    return Root(kept, None)


def _solve(root: Root) -> tuple[Tensor, Tensor, Tensor]:
    """θ = R⁻¹z (B, U, d), ln det RᵀR (B, U) and R⁻¹ (B, U, d, d)."""
    upper = root.upper
    d = upper.shape[-1]
    one = torch.eye(d, dtype=upper.dtype, device=upper.device).expand(upper.shape)
    right = torch.cat([root.rows[..., -1:], one], -1)
    solved = root.restore(torch.linalg.solve_triangular(upper, right, upper=True))
    log_det = 2 * upper.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)
    return solved[..., 0], log_det, solved[..., 1:]


Solutions = WoodburyUpdate | QRSolve
"""U regressions for each replica, each with at least the rows of the one before."""
