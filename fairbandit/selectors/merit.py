"""Merit functions: the exposure that a candidate deserves, given its reward or its rank."""

from __future__ import annotations

import math
from enum import Enum

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError


class MeritForm(Enum):
    """The form of a merit function before its floor."""

    identity = "x"
    power = "max(x, 0)^p"
    exponential = "exp(βx)"


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

    Raises:
        FairbanditError: a number out of range.

    >>> pool = torch.tensor([-1.0, 1.0, 3.0])
    >>> MeritFunction(floor=0.5).merits(pool, pool < 2).exp()
    tensor([0.5000, 1.0000, 0.0000])
    """

    def __init__(
        self,
        *,
        merit: MeritForm = MeritForm.identity,
        exponent: float = 1.0,
        rate: float = 1.0,
        floor: float = 0.01,
    ) -> None:
        numbers = {"exponent (p)": exponent, "rate (β)": rate, "floor (γ)": floor}
        for name, value in numbers.items():
            if not 0 < value < math.inf:
                raise FairbanditError(f"{name} must be above 0 and finite, got {value}")
        self.merit, self.exponent, self.rate, self.floor = merit, exponent, rate, floor

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
