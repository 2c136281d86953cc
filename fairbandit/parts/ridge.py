"""Ridge regression: its sums, its solutions, and the bonus that makes it optimistic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.maths.linear import add_outer, quadratic_sums
from fairbandit.maths.recursive import (
    SMALL,
    Again,
    Anew,
    Joined,
    Rooted,
    Solutions,
    Solved,
    onward,
    with_rows,
)
from fairbandit.maths.roots import root_of_sums
from fairbandit.parts.base import Problem, State
from fairbandit.parts.estimators import Estimator
from fairbandit.parts.history import History
from fairbandit.parts.model import (
    LinearModel,
    OptimisticModel,
    RewardModel,
    RootedOptimisticModel,
)
from fairbandit.parts.splits import PAPER
from fairbandit.registry import register
from fairbandit.streams import GRID, Purpose

ILL = 1e4
"""Where V⁻¹ is larger than this, relative to the rows, rounding rules out going on from it."""

HEAVY = 1e6
"""The largest entry of V⁻¹'s diagonal times the square of a row's largest entry, from which on the
row is kept beside a root: V⁻¹ would lose as many digits with it, and with larger ones all."""


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
    least_squares = True

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
        self._node = 0
        self._V = problem.zeros(b, d, d)
        self._V.diagonal(dim1=1, dim2=2).fill_(self.regularization)
        self._b = problem.zeros(b, d)
        self._solved: Solved | None = None  # at the last node, where it can be gone on from
        # where it cannot: a root [R z] of all rows but the latest, and these
        root = torch.cat([self._V.sqrt(), self._b[..., None]], 2)
        self._root: Tensor | None = root if self._plain else None
        self._rows = root[:, :0]
        self._reach = 0.0  # the largest entry of rows that V and b alone can take in

    def statistics(self, nodes: list[int], history: History) -> tuple[Tensor, Tensor]:
        """V and b after each node, before any solve; a private ridge adds its noise here.

        Args:
            nodes: U ascending numbers of rounds, none below those of an earlier call.
            history: past picks and rewards.

        Returns:
            V, (B, U, d, d), and b, (B, U, d).
        """
        last = nodes[-1]
        picks, _, rewards = history.outcomes(self._node, last)
        at = [node - self._node for node in nodes]
        V, b = quadratic_sums(self._V, self._b, picks, rewards, at)
        self._node, self._V, self._b = last, V[:, -1], b[:, -1]
        return V, b

    def absorb(self, node: int, history: History) -> None:
        """Moves V and b on to a node; see `Estimator`."""
        self._prepare(node, history)
        if self._root is None:
            self.statistics([node], history)
        else:
            self._take_in([node], history)
        self._solved = None

    def amend(self, contexts: Tensor, rewards: Tensor) -> None:
        """Adds to V and b; see `Estimator`."""
        if self._heavy(contexts):
            self._to_root()
        self._add(self._node, contexts, rewards)
        self._solved = None
        if self._root is not None:
            self._rows = torch.cat([self._rows, _rows(contexts, rewards)], 1)

    def state(self) -> State:
        """V and b at the last node, and what the next solution is made from."""
        blank = Solved(self._b, self._b.sum(1), self._V)
        solved = (self._solved or blank)._asdict()
        root = self._V[:, :0] if self._root is None else self._root
        goes_on = self._solved is not None
        return {
            "node": self._node,
            "V": self._V,
            "b": self._b,
            "root": root,
            "rows": self._rows,
            "reach": self._reach,
            "goes_on": goes_on,
            **solved,
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        self._node, self._V, self._b = state["node"], state["V"], state["b"]
        self._root = state["root"] if state["root"].shape[1] else None
        self._rows, self._reach = state["rows"], state["reach"]
        solved = Solved(*(state[name] for name in Solved._fields))
        self._solved = solved if state["goes_on"] else None

    @property
    def _plain(self) -> bool:
        """Whether V and b are the plain sums, which rank-one steps and roots follow."""
        return type(self).statistics is Ridge.statistics

    def _solve(self, nodes: list[int], history: History) -> tuple[Tensor, Solutions]:
        """θ with its noise after each node, (B, U, d), and what it was solved from.

        The solution goes on from the last one, and is made anew from V and b on a fixed grid of
        nodes, so that rounding never adds up. While V is too ill-conditioned for that, and from
        rows on that would make it so, each node is solved from the root of its rows; where
        `statistics` is not the plain sum, from V and b.
        """
        solutions = None if self._solved is None else self._go_on(self._solved, nodes, history)
        if solutions is None:
            self._prepare(nodes[-1], history)
            solutions = self._take_in(nodes, history)
            self._solved = self._fit(solutions)
        theta = solutions.theta
        if self.noise > 0 and nodes[-1] > 0:
            theta = theta + self._injected(nodes)
        return theta, solutions

    def _go_on(self, start: Solved, nodes: list[int], history: History) -> Solutions | None:
        """Moves on to the last node from the last solution; None where the rows forbid it."""
        first, last = self._node, nodes[-1]
        if first == last:
            return Again(start)
        picks, _, rewards = history.outcomes(first, last)
        if self._heavy(picks):
            return None
        self._add(last, picks, rewards)
        # a history that keeps sums may have fewer rows than rounds, and then one node
        at = [min(node - first, picks.shape[1]) for node in nodes]
        solutions = onward(start, picks, rewards, at)
        self._solved = solutions.last
        if first // GRID < last // GRID:
            self._solved = self._fit(Anew(self._V[:, None], self._b[:, None]))
        return solutions

    def _take_in(self, nodes: list[int], history: History) -> Solutions:
        """Moves on to the last node, solving each by itself."""
        if self._root is None:
            return Anew(*self.statistics(nodes, history))
        if len(nodes) > SMALL:
            lots = [nodes[low : low + SMALL] for low in range(0, len(nodes), SMALL)]
            return Joined([self._take_in(lot, history) for lot in lots])
        first, last, before = self._node, nodes[-1], self._rows.shape[1]
        picks, _, rewards = history.outcomes(first, last)
        rows = torch.cat([self._rows, _rows(picks, rewards)], 1)
        roots = with_rows(self._root, rows, [before + node - first for node in nodes])
        self._add(last, picks, rewards)
        if rows.shape[1] > 4 * SMALL:  # seldom, since rounding adds up
            self._root, rows = roots.rows[:, -1], rows[:, :0]
        self._rows = rows
        return Rooted(roots)

    def _prepare(self, node: int, history: History) -> None:
        """Goes over to a root before rows up to a node that V and b alone cannot take in."""
        goes_by_sums = self._plain and self._root is None
        if goes_by_sums and self._heavy(history.outcomes(self._node, node).contexts):
            self._to_root()

    def _heavy(self, contexts: Tensor) -> bool:
        """Whether V and b would lose too many digits with some rows, and there is no root yet."""
        if self._root is not None or not self._plain or not contexts.shape[1]:
            return False
        return not float(torch.linalg.vector_norm(contexts, torch.inf)) <= self._reach

    def _to_root(self) -> None:
        """Goes over from V and b to their root."""
        self._root, self._solved = root_of_sums(self._V, self._b).rows, None

    def _add(self, node: int, contexts: Tensor, rewards: Tensor) -> None:
        """Moves V and b on to a node, by some rows."""
        self._node = node
        self._V = add_outer(self._V, contexts, contexts)
        self._b = add_outer(self._b[..., None], contexts, rewards[..., None])[..., 0]

    def _fit(self, solutions: Solutions) -> Solved | None:
        """The last of some solutions, if later ones can go on from it; a root is kept if not."""
        if not self._plain:
            return None
        solved = solutions.last
        row = self._V.diagonal(dim1=1, dim2=2).sum(1) / max(self._node, 1)
        spread = solved.inverse.diagonal(dim1=1, dim2=2).amax(1)
        if not bool((row * spread < ILL).all()):
            if self._root is None:
                self._to_root()
            return None
        self._root, self._rows = None, self._rows[:, :0]
        self._reach = math.sqrt(HEAVY / float(spread.max()))
        return solved

    def _injected(self, nodes: list[int]) -> Tensor:
        """ρ/(d√n)·γ_n at each node n, (B, U, d); nothing was learned at 0, nor noise added."""
        d = self.problem.features
        first = max(nodes[0], 1)
        drawn = self.problem.streams[Purpose.ESTIMATOR].normal(first, nodes[-1] - first + 1, d)
        if len(nodes) == 1:
            return drawn * (self.noise / (d * math.sqrt(first)))
        at = torch.tensor(nodes, device=drawn.device)
        if nodes != list(range(first, nodes[-1] + 1)):
            drawn = drawn[:, (at - first).clamp(min=0)]
        root = at.to(drawn.dtype).sqrt()
        scale = torch.full_like(root, self.noise) / (d * root)
        return drawn * scale.where(at > 0, 0)[:, None]

    def _models(self, nodes: list[int], history: History) -> RewardModel:
        return LinearModel(self._solve(nodes, history)[0])


def _rows(contexts: Tensor, rewards: Tensor) -> Tensor:
    """[X r], (B, n, d + 1)."""
    return torch.cat([contexts, rewards[..., None]], 2)


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

    def _models(self, nodes: list[int], history: History) -> RewardModel:
        theta, solutions = self._solve(nodes, history)
        d = self.problem.features
        growth = (solutions.log_det - d * math.log(self.regularization)).clamp(min=0)
        if self.radius is Radius.practical:
            learned = theta.new_tensor([math.log(node + 1) for node in nodes])
            beta = (2 * growth * learned).sqrt()
        else:
            spread = (growth - 2 * math.log(self.delta)).sqrt()
            beta = self.subgaussian * spread + math.sqrt(self.regularization) * self.norm
        assert self.exploration is not None
        width = self.exploration * beta
        if solutions.factor is None:
            return OptimisticModel(theta, solutions.inverse, width)
        return RootedOptimisticModel(theta, solutions.factor, width)
