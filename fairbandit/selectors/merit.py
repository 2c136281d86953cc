"""Merit functions, and exposure in proportion to merit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from fairbandit.registry import Positive, register
from fairbandit.selectors.base import Ranked, Selector, softmax


class MeritForm(Enum):
    """The form of a merit function before its floor."""

    identity = "x"
    power = "max(x, 0)^p"
    exponential = "exp(βx)"


@dataclass(kw_only=True, eq=False)
class MeritFunction:
    """A merit function with a floor: f(x) = max(h(x), γ), where h is x, max(x, 0)^p or exp(βx).

    Negative values are clipped: where h(x) is below γ, the merit is γ. All candidates thus have a
    positive probability, up to underflow. Merits are computed and returned as logarithms, since
    their quotients may underflow. A part with a merit function also derives from this class.

    Args:
        merit: h: `identity`, `power` or `exponential`.
        exponent: p > 0 (power).
        rate: β > 0 (exponential).
        floor: γ > 0; merits below it count as γ.

    >>> pool = torch.tensor([-1.0, 1.0, 3.0])
    >>> MeritFunction(floor=0.5).merits(pool, pool < 2).exp()
    tensor([0.5000, 1.0000, 0.0000])
    """

    merit: MeritForm = MeritForm.identity
    exponent: Positive = 1.0
    rate: Positive = 1.0
    floor: Positive = 0.01

    def merits(self, values: Tensor, present: Tensor) -> Tensor:
        """The logarithms of the candidates' merits, ln f(x).

        Args:
            values: rewards or ranks, (…, K); ignored at empty places.
            present: which places hold a candidate, (…, K) bool.

        Returns:
            (…, K), finite; −∞ at empty places.
        """
        if self.merit is MeritForm.exponential:
            logarithms = self.rate * values
        else:
            exponent = self.exponent if self.merit is MeritForm.power else 1.0
            logarithms = exponent * values.clamp(min=0).log()
        logarithms = logarithms.clamp(math.log(self.floor), torch.finfo(values.dtype).max)
        return logarithms.masked_fill(~present, -torch.inf)


@register("selector", "proportional")
class Proportional(MeritFunction, Selector):
    """Each candidate with a probability proportional to the merit of its index.

    π_a = f(index_a) / Σ_b f(index_b) with f(x) = max(h(x), γ), where h(x) is x (identity),
    max(x, 0)^p (power) or exp(βx) (exponential). The paper requires f ≥ γ > 0 everywhere; the
    identity and powers need the clipping for it. All candidates with h < γ, such as all with
    negative estimates, have the merit γ. For m picks, π_a = min(1, c·f(index_a)) with c such that
    π sums to m. The parameters are described in `MeritFunction`.
    """

    reference = "Wang, Bai, Sun, Joachims, Fairness of Exposure in Stochastic Bandits, ICML 2021"

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        return softmax(self.merits(ranked.index.value, ranked.present), picks)
