"""Ridge regression: its sums, its solutions, and the bonus that makes it optimistic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairbandit.errors import FairbanditError
from fairbandit.maths.linear import add_outer
from fairbandit.maths.roots import root_of_rows, root_of_sums, rows_of, widened
from fairbandit.maths.solves import (
    SMALL,
    QRSolve,
    Solutions,
    Solved,
    WoodburyUpdate,
    cholesky_solve,
)
from fairbandit.parts.base import Problem, State
from fairbandit.parts.estimators import Estimator
from fairbandit.parts.history import Outcomes
from fairbandit.parts.model import (
    FactoredOptimisticModel,
    LinearModel,
    OptimisticModel,
    RewardModel,
)
from fairbandit.parts.splits import PAPER
from fairbandit.registry import register
from fairbandit.streams import GRID, Purpose

ILL = 1e4
"""Rounding rules out a Woodbury update where the largest entry of V⁻¹'s diagonal, times the mean
squared norm of contexts, is at least this."""

HEAVY = 1e6
"""A Woodbury update is ruled out for contexts whose largest entry squared, times the largest entry
of V⁻¹'s diagonal, exceeds this: V⁻¹ would lose too many digits."""


@register("estimator", "ridge")
class Ridge(Estimator):
    """Ridge regression on the picks and their rewards, with the paper's injected noise.

    V_n = Σ_{s≤n} x_s x_sᵀ + λI, b_n = Σ_{s≤n} r_s x_s, θ_n = V_n⁻¹ b_n + ρ/(d√n)·γ_n with γ_n
    standard normal, drawn once for each n (Algorithms 1 and 2, line 5).

    Args:
        regularization: λ > 0.
        noise: ρ in [0, 1]; 0 is plain ridge.

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    reference = PAPER
    draws = True
    sums = True
    most_pending: ClassVar[int] = 16
    """New rows are added to V and b, which few rounds read, once at least this many are pending."""

    def __init__(self, *, regularization: float = 0.1, noise: float = 1e-8) -> None:
        if not (regularization > 0 and math.isfinite(regularization)):
            raise FairbanditError(
                f"regularization (λ) must be above 0 and finite, got {regularization}"
            )
        if not 0 <= noise <= 1:
            raise FairbanditError(f"noise (ρ) must be from 0 to 1, got {noise}")
        self.regularization, self.noise = regularization, noise

    def bind(self, problem: Problem) -> None:
        """Starts from V = λI and b = 0."""
        super().bind(problem)
        b, d = problem.replicas, problem.features
        self._n = 0  # the rounds committed, whose rows [X r] are in V and b or pending
        self._V = problem.zeros(b, d, d)
        self._V.diagonal(dim1=1, dim2=2).fill_(self.regularization)
        self._b = problem.zeros(b, d)
        self._pending: tuple[Tensor, ...] = ()
        # One of these is kept: the root of V and b where the regression of all rows is
        # ill-conditioned, and that regression elsewhere.
        self._solved: Solved | None = None
        self._root: Tensor | None = rows_of(self._V.sqrt(), self._b)
        self._largest = 0.0  # a Woodbury update takes in contexts with entries up to this
        self._ahead: dict[int, Tensor] = {}  # by n: rows of models from n rounds on
        self._latest: tuple[Outcomes, int, Solutions] | None = None
        self._noise_of, self._noise = 0, self._b  # n, and the noise that was drawn for it

    def absorb(self, n: int, outcomes: Outcomes) -> None:
        """Adds outcomes to the sums, or keeps them until round n is committed; see `Estimator`."""
        contexts, rewards = self._regressors(outcomes), outcomes.rewards
        if n > self._n:
            rows = rows_of(contexts, rewards)
            ahead = torch.cat([self._ahead.get(n, rows[:, :0]), rows], 1)
            if ahead.shape[1] > 2 * contexts.shape[2] + 1:
                ahead = root_of_rows(ahead).rows  # least squares needs no more of the rows
            self._ahead, self._latest = dict(sorted({**self._ahead, n: ahead}.items())), None
        else:
            self._take(self._n, contexts, rewards)

    def state(self) -> State:
        """The sums, the rows to add to them, the regression, and outcomes kept for later models."""
        blank = Solved(self._b, self._b.sum(1), self._V)
        numbers = [n for n, rows in self._ahead.items() for _ in range(rows.shape[1])]
        return {
            "n": self._n,
            "V": self._V,
            "b": self._b,
            "root": self._stacked(()) if self._root is None else self._root,
            "pending": self._stacked(self._pending),
            "largest": self._largest,
            "goes_on": self._solved is not None,
            "ahead": self._stacked(self._ahead.values()),
            "ahead_n": torch.tensor([numbers], dtype=torch.int64, device=self._b.device),
            **(self._solved or blank)._asdict(),
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        self._n, self._V, self._b = state["n"], state["V"], state["b"]
        self._root = state["root"] if state["root"].shape[1] else None
        self._pending, self._largest = (state["pending"],), state["largest"]
        solved = Solved(*(state[name] for name in Solved._fields))
        self._solved = solved if state["goes_on"] else None
        ahead, number = state["ahead"], state["ahead_n"]
        self._ahead = {n: ahead[:, number[0] == n] for n in sorted(set(number[0].tolist()))}

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        return LinearModel(self._solve(n_train, outcomes)[0])

    def _regressors(self, outcomes: Outcomes) -> Tensor:
        """What rewards are regressed on, (B, n, d)."""
        return outcomes.contexts

    def _widen(self, more: int) -> None:
        """Continues with more regressors, which were 0 in all rows so far."""
        square = self._V.new_zeros(len(self._b), more, more)
        square.diagonal(dim1=1, dim2=2).fill_(self.regularization)
        self._V = pad(self._V, (0, more, 0, more)) + pad(square, (self._b.shape[1], 0) * 2)
        self._b = pad(self._b, (0, more))
        self._pending, self._latest = tuple(widened(rows, more) for rows in self._pending), None
        self._ahead = {n: widened(rows, more) for n, rows in self._ahead.items()}
        if self._root is None:
            self._solve_anew()
        else:
            below = pad(square.sqrt(), (self._root.shape[1], 1))
            self._root = torch.cat([widened(self._root, more), below], 1)

    def _commit(self, n: int, outcomes: Outcomes) -> None:
        if n > self._n:
            contexts, rewards, _ = self._new_rows([n], outcomes)
            kept, last, solutions = self._latest or (None, n, None)
            self._take(n, contexts, rewards, solutions if kept is outcomes and last == n else None)
            self._ahead = {m: rows for m, rows in self._ahead.items() if m > n}

    def _solve(self, n_train: list[int], outcomes: Outcomes) -> tuple[Tensor, Solutions]:
        """θ with its noise after each number of rounds, (B, U, d), and what it was solved from."""
        solutions = self._solutions(*self._new_rows(n_train, outcomes))
        self._latest = outcomes, n_train[-1], solutions  # a commit may use them again
        theta = solutions.theta
        if self.noise > 0 and n_train[-1] > 0:
            theta = theta + self._injected(n_train)
        return theta, solutions

    def _new_rows(self, n_train: list[int], outcomes: Outcomes) -> tuple[Tensor, Tensor, list[int]]:
        """X and r after the last commit, and how many of their rows each model includes."""
        if not self._ahead:
            contexts, rewards = self._regressors(outcomes), outcomes.rewards
            return contexts, rewards, [min(n - self._n, contexts.shape[1]) for n in n_train]
        ahead = [(n, rows) for n, rows in self._ahead.items() if n <= n_train[-1]]
        counts = [sum(rows.shape[1] for m, rows in ahead if m <= n) for n in n_train]
        rows = self._stacked(rows for _, rows in ahead)
        return rows[..., :-1], rows[..., -1], counts

    def _solutions(self, contexts: Tensor, rewards: Tensor, at: list[int]) -> Solutions:
        """For each i of `at`, the regression with the first i of the new rows."""
        if self._solved is not None and not self._is_heavy(contexts):
            return WoodburyUpdate(self._solved, contexts, rewards, at)
        root = root_of_sums(self._V, self._b).rows if self._root is None else self._root
        before, new = self._count_pending(), rows_of(contexts, rewards)
        return QRSolve(root, self._stacked([*self._pending, new]), [before + i for i in at])

    def _take(
        self, n: int, contexts: Tensor, rewards: Tensor, solutions: Solutions | None = None
    ) -> None:
        """Takes in the new rows of the first n rounds; solutions given are not computed again."""
        grid = self._n // GRID < n // GRID
        few = contexts.shape[1] <= SMALL or self._solved is None or self._is_heavy(contexts)
        if solutions is None and few:
            solutions = self._solutions(contexts, rewards, [contexts.shape[1]])
        self._n, self._latest = n, None
        if contexts.shape[1]:
            self._pending = *self._pending, rows_of(contexts, rewards)
        if isinstance(solutions, QRSolve):
            if self._count_pending() > 4 * SMALL:  # rarely, since each new root adds rounding
                self._add_pending()
                self._root = solutions.root
            self._go_on_from(solutions.last)
        elif solutions is None or grid:
            self._solve_anew()
        else:
            self._solved = solutions.last
        if self._solved is not None and self._count_pending() >= self.most_pending:
            self._add_pending()

    def _add_pending(self) -> None:
        """Adds the pending rows to V and b. The caller replaces `_root`, which lacks them."""
        rows = self._stacked(self._pending)
        contexts, rewards = rows[..., :-1], rows[..., -1:]
        self._V = add_outer(self._V, contexts, contexts)
        self._b = add_outer(self._b[..., None], contexts, rewards)[..., 0]
        self._pending = ()

    def _solve_anew(self) -> None:
        """Solves the regression from V and b, without the rounding of many updates."""
        self._add_pending()
        self._go_on_from(cholesky_solve(self._V, self._b))

    def _go_on_from(self, solved: Solved) -> None:
        """Keeps the regression, or the root of V and b if the regression is ill-conditioned."""
        squares = self._stacked(self._pending)[..., :-1].square().sum((1, 2))
        row = (self._V.diagonal(dim1=1, dim2=2).sum(1) + squares) / max(self._n, 1)
        spread = solved.inverse.diagonal(dim1=1, dim2=2).amax(1)
        if bool((row * spread < ILL).all()):
            self._solved, self._root = solved, None
            self._largest = math.sqrt(HEAVY / float(spread.max()))
        else:
            self._solved = None
            if self._root is None:
                self._root = root_of_sums(self._V, self._b).rows

    def _stacked(self, parts: Iterable[Tensor]) -> Tensor:
        """Rows [X r] one below the other, (B, n, d + 1), none if there are no parts."""
        b, d = self._b.shape
        return torch.cat([self._b.new_empty(b, 0, d + 1), *parts], 1)

    def _count_pending(self) -> int:
        return sum(rows.shape[1] for rows in self._pending)

    def _is_heavy(self, contexts: Tensor) -> bool:
        """Whether a Woodbury update by these rows would lose too many digits of V⁻¹."""
        largest = contexts.abs().max() if contexts.shape[1] else 0.0
        return not float(largest) <= self._largest

    def _injected(self, n_train: list[int]) -> Tensor:
        """ρ/(d√n)·γ_n for each n, (B, U, d); after no round there is no noise."""
        d = self.problem.features
        first = max(n_train[0], 1)
        if len(n_train) == 1 and self._noise_of == first:  # a model often serves two rounds
            return self._noise
        drawn = self.problem.streams[Purpose.ESTIMATOR].normal(first, n_train[-1] - first + 1, d)
        if len(n_train) == 1:
            self._noise_of, self._noise = first, drawn * (self.noise / (d * math.sqrt(first)))
            return self._noise
        at = torch.tensor(n_train, device=drawn.device)
        if n_train != list(range(first, n_train[-1] + 1)):
            drawn = drawn[:, (at - first).clamp(min=0)]
        root = at.to(drawn.dtype).sqrt()
        scale = torch.full_like(root, self.noise) / (d * root)
        return drawn * scale.where(at > 0, 0)[:, None]


class Radius(Enum):
    """How wide the confidence set of `OptimisticRidge` is."""

    practical = "as in the paper's experiments"
    textbook = "Abbasi-Yadkori et al. 2011, Theorem 2"


@register("estimator", "optimistic_ridge")
class OptimisticRidge(Ridge):
    """Ridge regression plus OFUL's confidence bonus.

    score(x) = ⟨θ_n, x⟩ + c·β_n·‖x‖_{V_n⁻¹}, with θ_n and V_n as in `Ridge`. The practical radius
    is that of the paper's experiments, β_n = √(2 ln(det V_n / det λI))·√(ln(n + 1)), n + 1 being
    the round under split `full`; the textbook one is
    β_n = R√(2 ln(√det V_n / (√det λI · δ))) + √λ·S.

    Args:
        exploration: c ≥ 0; None takes the environment's own.
        regularization: λ > 0.
        noise: ρ in [0, 1]; 0 is plain ridge.
        radius: `practical` or `textbook`.
        subgaussian: R, the noise's subgaussian constant (textbook).
        norm: S, a bound on ‖θ‖ (textbook).
        delta: δ, the probability of leaving the confidence set (textbook).

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    reference = (
        "Abbasi-Yadkori, Pal, Szepesvari, Improved Algorithms for Linear Stochastic Bandits, "
        "NeurIPS 2011"
    )
    has_bounds = True

    def __init__(
        self,
        *,
        exploration: float | None = None,
        regularization: float = 0.1,
        noise: float = 0.0,
        radius: Radius = Radius.practical,
        subgaussian: float = 1.0,
        norm: float = 1.0,
        delta: float = 0.05,
    ) -> None:
        super().__init__(regularization=regularization, noise=noise)
        if exploration is not None and not (exploration >= 0 and math.isfinite(exploration)):
            raise FairbanditError(f"exploration (c) must be at least 0, got {exploration}")
        if not (0 <= subgaussian < math.inf and 0 <= norm < math.inf and 0 < delta < 1):
            raise FairbanditError(
                "expected finite subgaussian (R) ≥ 0, norm (S) ≥ 0 and 0 < delta (δ) < 1; got "
                f"{subgaussian}, {norm}, {delta}"
            )
        self._given, self.exploration, self.radius = exploration, exploration, radius
        self.subgaussian, self.norm, self.delta = subgaussian, norm, delta

    def bind(self, problem: Problem) -> None:
        """Starts from V = λI and b = 0; takes the problem's `exploration` if it has none."""
        super().bind(problem)
        self.exploration = problem.exploration if self._given is None else self._given

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        theta, solutions = self._solve(n_train, outcomes)
        start = self.problem.features * math.log(self.regularization)
        growth = (solutions.log_det - start).clamp(min=0)
        if self.radius is Radius.practical:
            learned = theta.new_tensor([math.log(n + 1) for n in n_train])
            beta = (2 * growth * learned).sqrt()
        else:
            spread = (growth - 2 * math.log(self.delta)).sqrt()
            beta = self.subgaussian * spread + math.sqrt(self.regularization) * self.norm
        assert self.exploration is not None
        width = self.exploration * beta
        if isinstance(solutions, QRSolve):
            return FactoredOptimisticModel(theta, width, solutions.factor)
        return OptimisticModel(theta, width, solutions.downdated)
