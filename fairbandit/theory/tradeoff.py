"""What fairness costs in reward where two groups differ (`thm:linreg_opt`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.theory.laws import Law, empirical_law

GRID = 512
"""How many ε are tried before the best one's surroundings are searched."""

DRAWS = 100
"""How often values are resampled for a standard error."""

_AGAIN = 64


@dataclass(frozen=True)
class TradeOff:
    """The unavoidable standard regret of the fair optimum with two groups, a round.

    Attributes:
        epsilon: ε of greatest ε·p(ε).
        share: p(ε), how often the fair optimum loses more than ε.
        mean_loss: what it loses on average, E[standard regret], the integral of p.
        greatest_loss: beyond this ε, p(ε) = 0.
        error: the standard error of p(ε), from resampled values; 0 but for laws that are
            estimated from a sample.
    """

    epsilon: float
    share: float
    mean_loss: float
    greatest_loss: float
    error: float

    @property
    def rate(self) -> float:
        """ε·p(ε), below the mean loss a round."""
        return self.epsilon * self.share

    def chance(self, norm: float, theta: float) -> float:
        """How probable a regret of at least T·εp/2 is at least: εp/(4L‖μ*‖), for any T.

        Args:
            norm: L.
            theta: ‖μ*‖₂.
        """
        return self.rate / (4 * norm * theta)


def loss_share(first: Law, second: Law, epsilon: float | Sequence[float]) -> Tensor:
    """How often the fair optimum of two groups loses more than ε of reward (`thm:linreg_opt`).

    p(ε) = ∫₀¹ max(F₁(F₂⁻¹(y) − ε) − y, 0) + max(y − F₁(F₂⁻¹(y) + ε), 0) dy, which with
    y = F₂(v) is a mean over the second group's reward v.

    Args:
        first: the law of one group's true reward.
        second: of the other's, independent of it.
        epsilon: ε ≥ 0, one or many, in units of reward.

    Returns:
        p, of one dimension, in [0, 1].

    Raises:
        FairbanditError: a negative or infinite ε.

    >>> from fairbandit.theory import uniform_sum_law
    >>> apart = uniform_sum_law([1.0]), uniform_sum_law([1.0], offset=5.0)
    >>> loss_share(*apart, 2.0).round(decimals=6)  # disjoint: the worse group, half the time
    tensor([0.5000], dtype=torch.float64)
    """
    tried = torch.atleast_1d(torch.as_tensor(epsilon, dtype=torch.float64))
    if not bool((tried.isfinite() & (tried >= 0)).all()):
        raise FairbanditError(f"epsilon must be at least 0 and finite, got {epsilon}")
    v, weights, rank = second.nodes, second.weights, second.cdf(second.nodes)
    shares = []
    for one in tried:
        better = (first.cdf(v - one) - rank).clamp(min=0)
        worse = (rank - first.cdf(v + one)).clamp(min=0)
        shares.append((weights * (better + worse)).sum())
    return torch.stack(shares)


def trade_off(first: Law, second: Law, epsilon: float | None = None) -> TradeOff:
    """The ε of greatest ε·p(ε) and what belongs to it.

    Args:
        first: the law of one group's true reward.
        second: of the other's.
        epsilon: an ε to take instead of the best one.

    Returns:
        The trade-off; of two equal laws, with p = 0 everywhere, one of rate 0.

    Raises:
        FairbanditError: a negative ε.
    """
    greatest = max(first.high - second.low, second.high - first.low, 0.0)
    grid = torch.linspace(0, greatest, GRID + 1, dtype=torch.float64)
    shares = loss_share(first, second, grid.tolist())
    mean = float(torch.trapezoid(shares, grid))
    if epsilon is None:
        at = int((grid * shares).argmax())
        around = torch.linspace(
            float(grid[max(0, at - 1)]),
            float(grid[min(GRID, at + 1)]),
            _AGAIN + 1,
            dtype=torch.float64,
        )
        near = loss_share(first, second, around.tolist())
        epsilon = float(around[int((around * near).argmax())])
    share = float(loss_share(first, second, epsilon)[0])
    return TradeOff(epsilon, share, mean, greatest, _error(first, second, epsilon))


def _error(first: Law, second: Law, epsilon: float) -> float:
    """The standard deviation of p(ε) over resampled values of the laws that are samples."""
    if first.sample is None and second.sample is None:
        return 0.0
    generator = torch.Generator().manual_seed(0)

    def again(law: Law) -> Law:
        if law.sample is None:
            return law
        rows = torch.randint(len(law.sample), law.sample.shape, generator=generator)
        return empirical_law(law.sample[rows])

    shares = [loss_share(again(first), again(second), epsilon) for _ in range(DRAWS)]
    return float(torch.cat(shares).std())
