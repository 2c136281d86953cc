"""Mean and standard deviation of samples that arrive in batches (Chan, Golub and LeVeque)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fairbandit.maths.checks import like


class Moments:
    """Count, mean and sum of squared deviations at each place of a tensor.

    Batches merge as M₂ = M₂ₐ + M₂ᵦ + δ²·nₐnᵦ/(nₐ + nᵦ), δ being the difference of the means; this
    avoids the cancellation of a running sum of squares. NaN means that there is no sample.

    Args:
        shape: the shape of one sample.

    Reference:
        Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
        Variances", 1979.

    >>> moments = Moments(1)
    >>> moments.add(torch.tensor([[1.0], [2.0]]))
    >>> moments.add(torch.tensor([[6.0], [float("nan")]]))
    >>> moments.mean.item(), round(moments.std.item(), 4)
    (3.0, 2.6458)
    """

    def __init__(self, *shape: int) -> None:
        self._count = torch.zeros(shape, dtype=torch.float64)
        self._mean, self._squares = self._count.clone(), self._count.clone()

    def add(self, values: Tensor, where: slice = slice(None)) -> None:
        """Adds B samples, (B, *shape), or only the part `where` of the shape's first dimension."""
        known = ~values.isnan()
        count = known.sum(0).to(torch.float64)
        filled = torch.where(known, values, 0.0).to(torch.float64)
        mean = filled.sum(0) / count.clamp(min=1)
        squares = ((filled - mean).square() * known).sum(0)
        total = self._count[where] + count
        share = count / total.clamp(min=1)
        apart = mean - self._mean[where]
        self._squares[where] += squares + apart.square() * self._count[where] * share
        self._mean[where] += apart * share
        self._count[where] = total

    @property
    def count(self) -> Tensor:
        """The number of samples so far."""
        return self._count

    @property
    def mean(self) -> Tensor:
        """The means so far, NaN where no sample came."""
        return torch.where(self._count > 0, self._mean, torch.nan)

    @property
    def std(self) -> Tensor:
        """The standard deviations so far (ddof 1), NaN where fewer than two samples came."""
        return torch.where(self._count > 1, self._squares / (self._count - 1), torch.nan).sqrt()

    def state(self) -> dict[str, Tensor]:
        """The counts, means and sums of squared deviations."""
        return {"count": self._count, "mean": self._mean, "squares": self._squares}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores a state that `state` returned.

        Raises:
            FairbanditError: a state of samples of another shape.
        """
        for name, now in self.state().items():
            like(f"moments, {name}", state[name], now)
        self._count, self._mean = state["count"], state["mean"]
        self._squares = state["squares"]
