"""Ridge regressions one row after another: each solved anew, or from the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fairbandit.maths.linear import add_outer, factor
from fairbandit.maths.roots import Root, root_of_rows

SMALL = 64
"""Rows that one factorisation takes in: what a row costs grows with the square of their number."""


class Solved(NamedTuple):
    """One regression a replica, to go on from.

    Attributes:
        theta: V⁻¹b, (B, d).
        log_det: ln det V, (B,).
        inverse: V⁻¹, (B, d, d).
    """

    theta: Tensor
    log_det: Tensor
    inverse: Tensor


class Solutions(Protocol):
    """U regressions a replica, each with more rows than the one before.

    Attributes:
        theta: V⁻¹b, (B, U, d).
    """

    theta: Tensor

    @property
    def log_det(self) -> Tensor:
        """ln det V, (B, U)."""

    @property
    def factor(self) -> Tensor | None:
        """F with FFᵀ = V⁻¹, (B, U, d, d), where they are solved from it."""

    @property
    def inverse(self) -> Tensor:
        """V⁻¹, (B, U, d, d)."""

    @property
    def last(self) -> Solved:
        """The last of them."""


class Anew:
    """Each regression from its own Cholesky factor.

    Args:
        V: (B, U, d, d).
        b: (B, U, d).

    Raises:
        FairbanditError: a V that is not positive definite in floating point.
    """

    factor = None

    def __init__(self, V: Tensor, b: Tensor) -> None:
        self._lower = factor(V)
        self.theta = torch.cholesky_solve(b[..., None], self._lower)[..., 0]

    @cached_property
    def log_det(self) -> Tensor:
        """ln det V, (B, U)."""
        return 2 * self._lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @cached_property
    def inverse(self) -> Tensor:
        """V⁻¹, (B, U, d, d)."""
        return torch.cholesky_inverse(self._lower)

    @property
    def last(self) -> Solved:
        """The last of them."""
        lower = self._lower[:, -1]
        log_det = 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return Solved(self.theta[:, -1], log_det, torch.cholesky_inverse(lower))


class Rooted:
    """Each regression from the triangular root of its rows, without V and b in between.

    RᵀR = V and θ = R⁻¹z for the root [R z] of [√λI 0; X r]. Rounding ε moves θ by about
    ε(κ + κ²ρ), where κ is the condition number of [√λI; X] and ρ = ‖r − Xθ‖/(‖X‖·‖θ‖). Solved
    from V and b, whose condition number is κ², it would be εκ² whatever the residuals ρ. So what
    was never learned is known to fewer digits, the smaller λ is: κ ≤ ‖X‖/√λ.

    Args:
        roots: [R z], (B, U, d, d + 1).

    Reference:
        Golub, Van Loan, Matrix Computations, Sec. 5.3 and 6.1.4; Higham, Accuracy and Stability
        of Numerical Algorithms, Sec. 20.1.
    """

    def __init__(self, roots: Root) -> None:
        self.roots, self._upper = roots, roots.upper
        self.theta = roots.restore(self._solve(roots.rows[..., -1:]))[..., 0]

    @cached_property
    def log_det(self) -> Tensor:
        """ln det V, (B, U)."""
        return 2 * self._upper.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)

    @cached_property
    def factor(self) -> Tensor:
        """F with FFᵀ = V⁻¹, (B, U, d, d)."""
        d = self._upper.shape[-1]
        one = torch.eye(d, dtype=self.theta.dtype, device=self.theta.device)
        return self.roots.restore(self._solve(one))

    @property
    def inverse(self) -> Tensor:
        """V⁻¹, (B, U, d, d)."""
        return self.factor @ self.factor.transpose(-1, -2)

    @property
    def last(self) -> Solved:
        """The last of them."""
        factor = self.factor[:, -1]
        return Solved(self.theta[:, -1], self.log_det[:, -1], factor @ factor.transpose(-1, -2))

    def _solve(self, right: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self._upper, right, upper=True)


def with_rows(root: Tensor, rows: Tensor, at: list[int]) -> Root:
    """A root with the first i of some more rows, for each i asked for, in one step each.

    Args:
        root: [R z], (B, d, d + 1).
        rows: [X r], (B, n, d + 1).
        at: U numbers of rows, each from 0 to n.

    Returns:
        The roots of [R z; X r], (B, U, d, d + 1).
    """
    first = torch.tensor(at, device=rows.device)[:, None]
    there = torch.arange(rows.shape[1], device=rows.device) < first
    some = rows[:, None] * there[..., None]
    return root_of_rows(torch.cat([some, root[:, None].expand(-1, len(at), -1, -1)], 2))


class Again:
    """One regression that is solved already.

    Args:
        solved: it.
    """

    factor = None

    def __init__(self, solved: Solved) -> None:
        self.last = solved
        self.theta, self.log_det, self.inverse = (part[:, None] for part in solved)


class Onward:
    """Regressions after i more rows each, from one that is solved, by one small factorisation.

    With rows X and P = V⁻¹, let LLᵀ = I + XPXᵀ, W = L⁻¹XP and z = L⁻¹(r − Xθ). After the first i
    rows, θᵢ = θ + Σ_{j≤i} zⱼwⱼ, Vᵢ⁻¹ = P − Σ_{j≤i} wⱼwⱼᵀ, ln det Vᵢ = ln det V + 2Σ_{j≤i} ln Lⱼⱼ:
    the formula of Sherman, Morrison and Woodbury for all i at once.

    Args:
        start: the solved regression.
        contexts: the rows X, (B, n, d).
        rewards: r, (B, n).
        at: U ascending numbers of rows, at most n.
    """

    factor = None

    def __init__(self, start: Solved, contexts: Tensor, rewards: Tensor, at: list[int]) -> None:
        theta, log_det, inverse = start
        self._inverse = inverse
        n = contexts.shape[1]
        if n == 1:  # a factor is a square root, and sums of products beat small matrix products
            projected = (inverse * contexts).sum(2)[:, None]
            missed = rewards[..., None] - (contexts * theta[:, None]).sum(2, keepdim=True)
            root = ((projected * contexts).sum(2, keepdim=True) + 1).sqrt()
            self._w, z = projected / root, missed / root
            logs = root[..., 0].log()
        else:
            projected = contexts @ inverse
            missed = rewards[..., None] - contexts @ theta[..., None]
            gram = projected @ contexts.transpose(1, 2)
            gram.diagonal(dim1=1, dim2=2).add_(1)
            lower = factor(gram)
            both = torch.cat([projected, missed], 2)
            both = torch.linalg.solve_triangular(lower, both, upper=False)
            self._w, z = both[..., :-1], both[..., -1:]
            logs = lower.diagonal(dim1=1, dim2=2).log()
        every, self._last_alone = at == list(range(1, n + 1)), at == [n]
        self._at = None if every else torch.tensor(at, dtype=torch.int64, device=theta.device)
        self.theta, self._theta = self._up_to(theta, z * self._w)
        self.log_det, self._log_det = self._up_to(log_det, 2 * logs)

    @cached_property
    def inverse(self) -> Tensor:
        """V⁻¹, (B, U, d, d)."""
        if self._last_alone:
            return self.last.inverse[:, None]
        return self._up_to(self._inverse, -self._w[..., :, None] * self._w[..., None, :])[0]

    @cached_property
    def last(self) -> Solved:
        """The last of them, all rows in."""
        inverse = add_outer(self._inverse, self._w, self._w, -1)
        return Solved(self._theta, self._log_det, inverse)

    def _up_to(self, start: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """A start plus the first i of n steps, for each i asked for, and all: (B, U, …), (B, …)."""
        sums = start[:, None] + (steps if steps.shape[1] == 1 else steps.cumsum(1))
        if self._at is not None:
            every = torch.cat([start[:, None], sums], 1)
            return every.index_select(1, self._at), every[:, -1]
        return sums, sums[:, -1]


class Joined:
    """Regressions of which each stretch goes on from the one before.

    Args:
        stretches: at least one.
    """

    def __init__(self, stretches: Sequence[Solutions]) -> None:
        self._stretches = stretches
        self.theta = torch.cat([part.theta for part in stretches], 1)

    @cached_property
    def log_det(self) -> Tensor:
        """ln det V, (B, U)."""
        return torch.cat([part.log_det for part in self._stretches], 1)

    @cached_property
    def factor(self) -> Tensor | None:
        """F with FFᵀ = V⁻¹, (B, U, d, d), if every stretch has it."""
        factors = [part.factor for part in self._stretches]
        known = [factor for factor in factors if factor is not None]
        return torch.cat(known, 1) if len(known) == len(factors) else None

    @cached_property
    def inverse(self) -> Tensor:
        """V⁻¹, (B, U, d, d)."""
        return torch.cat([part.inverse for part in self._stretches], 1)

    @property
    def last(self) -> Solved:
        """The last of them."""
        return self._stretches[-1].last


def onward(start: Solved, contexts: Tensor, rewards: Tensor, at: list[int]) -> Solutions:
    """The same as `Onward` gives, by factorisations that are all small.

    Args:
        start, contexts, rewards, at: as of `Onward`.
    """
    n = contexts.shape[1]
    if n <= SMALL:
        return Onward(start, contexts, rewards, at)
    stretches = list[Solutions]()
    for low in range(0, n, SMALL):
        high = min(low + SMALL, n)
        inside = [i - low for i in at if low < i <= high or i == low == 0]
        step = Onward(start, contexts[:, low:high], rewards[:, low:high], inside)
        stretches.append(step)
        start = step.last
    return Joined(stretches)
