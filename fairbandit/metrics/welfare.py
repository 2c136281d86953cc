"""The welfare of the groups: a p-mean of their mean rewards."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.metrics.group_metric import GroupMetric
from fairbandit.registry import register


@register("metric", "welfare")
class Welfare(GroupMetric):
    """The p-mean of the groups' mean true rewards.

    (1/G Σ_g m_g^p)^{1/p}, where m_g is the mean true reward of the picks of group g in rounds
    1 … t. p = 1 is the utilitarian welfare, p = 0 Nash's, the geometric mean Π_g m_g^{1/G}, and
    p → −∞ Rawls's, the least of the m_g, from which p = −1e6 differs by a factor of G^{1e-6}.
    A group of which there were candidates and no picks has m_g = 0, and one without candidates does
    not count. But for p = 1, p-means are for numbers of at least 0, and a negative m_g counts as 0.

    Args:
        p: any finite number; the smaller, the more the worst group counts.

    Raises:
        FairbanditError: p is not finite.
    """

    reference = (
        "Moulin, Fair Division and Collective Welfare, 2003, ch. 3; Barman, Khan, Maiti, Sawarni, "
        "Fairness and Welfare Quantification for Regret in Multi-Armed Bandits, AAAI 2023"
    )
    needs_truth = True
    lower_is_better = False

    def __init__(self, *, p: float = 0.0) -> None:
        if not math.isfinite(p):
            raise FairbanditError(
                f"p must be finite, got {p}; -1e6 is as good as -inf, and 1e6 as inf"
            )
        self.p = p

    def _judge(self, picked: Tensor, received: Tensor, *gained: Tensor) -> Tensor:
        return _p_mean(gained[0] / picked.clamp(min=1), received > 0, self.p)


def _p_mean(values: Tensor, there: Tensor, p: float) -> Tensor:
    """The p-mean of the values that are there, of which there are some: (B, N, G) to (B, N)."""
    count = there.sum(2, keepdim=True)
    if p == 1:
        return values.where(there, 0).sum(2) / count[..., 0]
    values = values.clamp(min=0)
    # relative to the value that counts most, no power overflows
    unit = values.where(there, -torch.inf).amax(2, keepdim=True)
    if p < 0:
        unit = values.where(there, torch.inf).amin(2, keepdim=True)
    logs = (values / unit).log().where(there, 0)
    if p == 0:
        mean = logs.sum(2, keepdim=True) / count
    else:  # this form is exact for small p too
        mean = ((p * logs).expm1().sum(2, keepdim=True) / count).log1p() / p
    return (unit * mean.exp()).where(unit > 0, 0)[..., 0]
