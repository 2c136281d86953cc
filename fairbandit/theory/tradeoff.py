"""The reward that fairness costs and the fairness that reward costs (`thm:linreg_opt`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbandit.environments import Environment
from fairbandit.theory.constants import Estimate, drawn_pools

BLOCKS = 128
"""Losses are those of 262,144 pools."""


@dataclass(frozen=True)
class TradeOff:
    """The unavoidable regrets of the two optima, a round, with standard errors.

    Attributes:
        epsilon: ε of greatest ε·p(ε), or the one that was given.
        share: p(ε), how often the fair optimum loses more than ε of reward.
        mean_loss: the reward that the fair optimum loses on average; the integral of p.
        mean_unfairness: the rank that the reward optimum loses on average.
    """

    epsilon: float
    share: Estimate
    mean_loss: Estimate
    mean_unfairness: Estimate

    @property
    def rate(self) -> float:
        """ε·p(ε), at most the mean loss a round."""
        return self.epsilon * self.share.value

    def chance(self, norm: float, theta: float) -> float:
        """How probable a regret of at least T·εp/2 is at least: εp/(4L‖μ*‖) ≤ ½, for any T.

        `norm` is L, and `theta` is ‖μ*‖₂.
        """
        return self.rate / (4 * norm * theta) if self.rate else 0.0


def trade_off(environment: Environment, epsilon: float | None = None) -> TradeOff:
    """What the fair optimum loses of reward, and the reward optimum of fairness.

    The theorem speaks of two groups with a place each: with probability at least εp/(4L‖μ*‖) the
    fair optimum's standard regret of T rounds is at least T·εp/2, where
    p(ε) = ∫₀¹ max(F₁(F₂⁻¹(y) − ε) − y, 0) + max(y − F₁(F₂⁻¹(y) + ε), 0) dy is the probability that
    it loses more than ε in a round. Here p is the share of 262,144 drawn pools in which it does.
    Maximisers that tie are picked with equal probability.

    Args:
        environment: one whose pools have true ranks; it is bound to streams.
        epsilon: an ε, at least 0, to take instead of the best one.
    """
    parts = []
    for pools in drawn_pools(environment, BLOCKS):
        empty = pools.groups < 0
        rewards, ranks = (
            values.masked_fill(empty, -math.inf).flatten(0, 1).cpu()
            for values in (pools.expected, pools.ranks)
        )
        parts.append((_gaps(rewards), _maximisers(ranks), _gaps(ranks), _maximisers(rewards)))
    losses, fair, unfair, best = map(torch.cat, zip(*parts, strict=True))
    if epsilon is None:
        ordered = losses.flatten().sort(descending=True)
        tail = fair.flatten()[ordered.indices].cumsum(0) / len(losses)
        rates = ordered.values * tail  # of an ε just below each loss
        at = int(rates.argmax())
        epsilon = math.nextafter(float(ordered.values[at]), 0) if float(rates[at]) > 0 else 0.0
    return TradeOff(
        epsilon=epsilon,
        share=_mean(((losses > epsilon) * fair).sum(1)),
        mean_loss=_mean((losses * fair).sum(1)),
        mean_unfairness=_mean((unfair * best).sum(1)),
    )


def _gaps(values: Tensor) -> Tensor:
    """By how much each place is below the best, (n, K); 0 at empty places, which none picks."""
    return (values.amax(1, keepdim=True) - values).nan_to_num(0.0, posinf=0.0)


def _maximisers(values: Tensor) -> Tensor:
    """The probabilities of a uniform pick among the maximisers, (n, K)."""
    chosen = (values == values.amax(1, keepdim=True)).double()
    return chosen / chosen.sum(1, keepdim=True)


def _mean(values: Tensor) -> Estimate:
    error = float(values.std()) / math.sqrt(len(values))
    return Estimate(float(values.mean()), f"from {len(values):,} pools", error)
