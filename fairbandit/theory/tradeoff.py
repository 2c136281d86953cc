"""The reward that fairness costs and the fairness that reward costs (`thm:linreg_opt`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.theory.laws import DiscreteLaw, Law

TOLERANCE = 1e-3
"""The relative error allowed in the greatest ε·p(ε)."""

DRAWS = 50
"""The number of bootstrap samples for a standard error."""

_NEGLIGIBLE = 1e-12  # of the loss's upper bound: an ε·p(ε) that is rounding


@dataclass(frozen=True)
class TradeOff:
    """The unavoidable regrets of the two optima with two groups, a round.

    Attributes:
        epsilon: ε of greatest ε·p(ε), within `TOLERANCE`, or the one that was given.
        share: p(ε), how often the fair optimum loses more than ε of reward.
        mean_loss: the reward that the fair optimum loses on average; the integral of p.
        loss_upper_bound: the greatest difference of rewards of the two groups, beyond which
            p(ε) = 0. Where rewards have long tails, it is far above the losses that occur.
        mean_unfairness: the rank that the reward optimum loses on average, its fair pseudo-regret
            a round.
        errors: the standard errors of `share`, `mean_loss` and `mean_unfairness`, from resampled
            values; 0 but for laws that are estimated from a sample.
    """

    epsilon: float
    share: float
    mean_loss: float
    loss_upper_bound: float
    mean_unfairness: float
    errors: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def rate(self) -> float:
        """ε·p(ε), at most the mean loss a round."""
        return self.epsilon * self.share

    def chance(self, norm: float, theta: float) -> float:
        """How probable a regret of at least T·εp/2 is at least: εp/(4L‖μ*‖) ≤ ½, for any T.

        Args:
            norm: L.
            theta: ‖μ*‖₂.
        """
        return self.rate / (4 * norm * theta) if self.rate else 0.0


def loss_share(first: Law, second: Law, epsilon: float | Sequence[float]) -> Tensor:
    """How often the fair optimum of two groups loses more than ε of reward (`thm:linreg_opt`).

    p(ε) = ∫₀¹ max(F₁(F₂⁻¹(y) − ε) − y, 0) + max(y − F₁(F₂⁻¹(y) + ε), 0) dy, which with
    y = F₂(v) is a mean over the second group's reward v. Where values have mass, y in the integrand
    is how often the first group's rank is lower, equal ranks being counted by half, as the fair
    optimum picks; F₁(v − ε) is then P(R₁ < v − ε).

    Args:
        first: the law of one group's true reward.
        second: of the other's, independent of it.
        epsilon: ε ≥ 0, one or many, in units of reward.

    Returns:
        p, of one dimension, in [0, 1].

    Raises:
        FairbanditError: a negative or infinite ε.

    >>> from fairbandit.theory import UniformSumLaw
    >>> apart = UniformSumLaw([1.0]), UniformSumLaw([1.0], offset=5.0)
    >>> loss_share(*apart, 2.0).round(decimals=6)  # disjoint: the worse group, half the time
    tensor([0.5000], dtype=torch.float64)
    """
    tried = torch.atleast_1d(torch.as_tensor(epsilon, dtype=torch.float64))
    if not bool((tried.isfinite() & (tried >= 0)).all()):
        raise FairbanditError(f"epsilon must be at least 0 and finite, got {epsilon}")
    v, weights = second.nodes, second.weights
    lower = first.ranked(second.cdf(v))
    shares = []
    for one in tried:
        worse, not_better = first.below(v - one), first.cdf(v + one)
        lost = [(worse - y).clamp(min=0) + (y - not_better).clamp(min=0) for y in lower]
        shares.append((weights * (lost[0] + lost[1])).sum() / 2)
    return torch.stack(shares)


def mean_losses(first: Law, second: Law) -> tuple[float, float]:
    """What each optimum loses on average of what the other maximises.

    E[max(R₁, R₂)] and the means of the picks are sums over sorted values: Σ w·r·P(picked | r),
    where the reward optimum picks r if the other's reward is lower, and the fair optimum if the
    other's rank is lower; ties count by half.

    Args:
        first: the law of one group's true reward.
        second: of the other's, independent of it.

    Returns:
        The fair optimum's mean standard regret, in units of reward, and the reward optimum's mean
        fair regret, in ranks.
    """
    loss = unfairness = 0.0
    centre = sum(float((law.weights * law.nodes).sum()) for law in (first, second)) / 2
    for own, other in ((first, second), (second, first)):
        ranks = own.cdf(own.nodes)
        by_rank = sum(other.ranked(ranks)) / 2
        by_reward = (other.below(own.nodes) + other.cdf(own.nodes)) / 2
        more = own.weights * (by_reward - by_rank)
        loss += float((more * (own.nodes - centre)).sum())
        unfairness -= float((more * ranks).sum())
    return max(loss, 0.0), max(unfairness, 0.0)


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
    most = max(first.high - second.low, second.high - first.low, 0.0)
    best = _best_epsilon(first, second, most) if epsilon is None else epsilon
    share = float(loss_share(first, second, best)[0])
    mean_loss, mean_unfairness = mean_losses(first, second)
    errors = _errors(first, second, best)
    return TradeOff(best, share, mean_loss, most, mean_unfairness, errors)


def _best_epsilon(first: Law, second: Law, most: float) -> float:
    """Branch and bound: p falls, so that ε·p(ε) is at most high·p(low) between low and high."""
    low, high = torch.zeros(1, dtype=torch.float64), torch.tensor([most], dtype=torch.float64)
    share = loss_share(first, second, 0.0)
    best, at = 0.0, 0.0
    while True:
        left = high * share > max(best * (1 + TOLERANCE), _NEGLIGIBLE * most)
        if not bool(left.any()):
            return at
        low, high, share = low[left], high[left], share[left]
        middle = (low + high) / 2
        between = loss_share(first, second, middle.tolist())
        rates = middle * between
        if float(rates.max()) > best:
            best, at = float(rates.max()), float(middle[rates.argmax()])
        low, high = torch.cat([low, middle]), torch.cat([middle, high])
        share = torch.cat([share, between])


def _errors(first: Law, second: Law, epsilon: float) -> tuple[float, float, float]:
    """Standard deviations over resampled values of the laws that are samples."""
    if not (first.sample or second.sample):
        return 0.0, 0.0, 0.0
    generator = torch.Generator().manual_seed(0)

    def again(law: Law) -> Law:
        if not law.sample:
            return law
        rows = torch.multinomial(law.weights, law.sample, replacement=True, generator=generator)
        return DiscreteLaw(law.nodes[rows])

    found = []
    for _ in range(DRAWS):
        one, other = again(first), again(second)
        found.append([float(loss_share(one, other, epsilon)[0]), *mean_losses(one, other)])
    share, loss, unfairness = torch.tensor(found, dtype=torch.float64).std(0).tolist()
    return share, loss, unfairness
