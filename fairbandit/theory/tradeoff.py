"""The cost of fairness in reward, and the cost of reward in fairness (`thm:linreg_opt`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbandit.environments import Environment
from fairbandit.theory.constants import Constant, drawn_pools

BLOCKS = 128
"""The number of blocks of pools from which losses are estimated, 262,144 pools in all."""


@dataclass(frozen=True)
class TradeOff:
    """The regrets per round of the fair optimum and of the reward optimum, with standard errors.

    Attributes:
        epsilon: the ε that was given, or the ε with the greatest ε·p(ε).
        share: p(ε), the probability that the fair optimum loses more than ε of reward.
        mean_loss: the mean reward that the fair optimum loses; the integral of p.
        mean_unfairness: the mean rank that the reward optimum loses.
    """

    epsilon: float
    share: Constant
    mean_loss: Constant
    mean_unfairness: Constant

    @property
    def rate(self) -> float:
        """ε·p(ε), a lower bound on the mean loss per round."""
        return self.epsilon * self.share.value

    def chance(self, norm: float, theta: float) -> float:
        """Returns εp/(4L‖μ*‖) ≤ ½, a lower bound on the probability of regret T·εp/2 for any T.

        `norm` is L, and `theta` is ‖μ*‖₂.
        """
        return self.rate / (4 * norm * theta) if self.rate else 0.0


def trade_off(environment: Environment, epsilon: float | None = None) -> TradeOff:
    """Estimates the reward that the fair optimum loses, and the rank that the reward optimum loses.

    The theorem is about two groups with one place each: with probability at least εp/(4L‖μ*‖) the
    fair optimum's standard regret over T rounds is at least T·εp/2, where
    p(ε) = ∫₀¹ max(F₁(F₂⁻¹(y) − ε) − y, 0) + max(y − F₁(F₂⁻¹(y) + ε), 0) dy is the probability that
    it loses more than ε in a round. Here p is estimated from 262,144 drawn pools. Tied maximisers
    are picked with equal probability.

    Args:
        environment: an environment whose pools have true ranks; it is bound to new streams.
        epsilon: ε, at least 0; None takes the ε with the greatest ε·p(ε).
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
        rates = ordered.values * tail  # ε·p(ε) for ε just below each loss
        at = int(rates.argmax())
        epsilon = math.nextafter(float(ordered.values[at]), 0) if float(rates[at]) > 0 else 0.0
    return TradeOff(
        epsilon=epsilon,
        share=_mean(((losses > epsilon) * fair).sum(1)),
        mean_loss=_mean((losses * fair).sum(1)),
        mean_unfairness=_mean((unfair * best).sum(1)),
    )


def _gaps(values: Tensor) -> Tensor:
    return (values.amax(1, keepdim=True) - values).nan_to_num(0.0, posinf=0.0)


def _maximisers(values: Tensor) -> Tensor:
    chosen = (values == values.amax(1, keepdim=True)).double()
    return chosen / chosen.sum(1, keepdim=True)


def _mean(values: Tensor) -> Constant:
    error = float(values.std()) / math.sqrt(len(values))
    return Constant(float(values.mean()), f"from {len(values):,} pools", error)
