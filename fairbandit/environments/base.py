"""The base class of environments, their pools, and their ground truth."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.files.files import data_hash
from fairbandit.registry import Registered, base
from fairbandit.streams import Streams

POINTS = 201  # of the grid of a distribution, which covers all but the share _TAIL at each end

_TAIL = 1e-3
_BINS = 2048
_binding = RLock()  # locked while an environment has to stay bound to the same streams


@dataclass(frozen=True)
class Truth:
    """The ground truth of an environment: true rewards, and their CDF by group, for each round.

    Args:
        theta: the true θ, (d,), the paper's μ*, if true rewards are ⟨θ, x⟩; otherwise None.
        cdf: cdf(groups, values, rounds), three tensors that broadcast to (…), gives the CDF of each
            group at each value in each round, (…). The CDF of a table has steps at the members'
            true rewards: a value that rounding puts below its own step has the rank before it.
        rewards: rewards(contexts, groups, rounds), of (…, d), (…) and rounds that broadcast to (…),
            gives the true rewards, (…); None if `theta` is given.

    >>> square = Truth(None, lambda g, v, t: v.sqrt(), rewards=lambda x, g, t: x[..., 0] ** 2)
    >>> square.score(torch.tensor([[0.5]]), torch.tensor([0]), torch.tensor([1]))
    tensor([0.2500])
    """

    theta: Tensor | None
    cdf: Callable[[Tensor, Tensor, Tensor], Tensor]
    rewards: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None

    def score(self, contexts: Tensor, groups: Tensor, rounds: Tensor) -> Tensor:
        """Returns the true rewards, (…), of contexts (…, d), groups and rounds (…) int64."""
        if self.rewards is not None:
            return self.rewards(contexts, groups, rounds)
        return contexts @ self.linear_theta()

    def linear_theta(self) -> Tensor:
        """Returns θ, (d,); a `FairbanditError` if the true rewards are not linear."""
        if self.theta is None:
            raise FairbanditError("expected linear true rewards ⟨θ, x⟩, but θ is None")
        return self.theta


@dataclass(frozen=True)
class Pools:
    """N rounds of candidates for B replicas, with their ground truth, which no policy sees.

    Attributes:
        contexts: features, (B, N, K, d) float64.
        groups: codes of the groups, (B, N, K) int64; −1 for an empty place.
        rewards: the noisy reward each candidate would give, (B, N, K).
        expected: the true rewards, (B, N, K).
        ranks: the true relative ranks, (B, N, K), in [0, 1].
    """

    contexts: Tensor
    groups: Tensor
    rewards: Tensor
    expected: Tensor
    ranks: Tensor

    def __getitem__(self, rounds: slice) -> Pools:
        """Returns some of the rounds, as views."""
        return Pools(*(values[:, rounds] for values in vars(self).values()))


@dataclass(frozen=True)
class Distribution:
    """The density and the CDF, (n,), at ascending rewards, `values`, (n,) float64."""

    values: Tensor
    density: Tensor
    cdf: Tensor


def of_cdf(cdf: Callable[[Tensor], Tensor]) -> Distribution:
    """Returns the distribution of a smooth CDF, from rewards (n,) to shares (n,)."""
    tails = torch.tensor([_TAIL, 1 - _TAIL], dtype=torch.float64)
    low, high = torch.full_like(tails, -1e12), torch.full_like(tails, 1e12)
    for _ in range(100):  # bisection of both quantiles
        middle = (low + high) / 2
        below = cdf(middle) < tails
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    values = _grid(*high.tolist())
    shares = cdf(values)
    (density,) = torch.gradient(shares, spacing=(values,))
    return Distribution(values, density.clamp(min=0), shares)


def of_sample(ordered: Tensor) -> Distribution:
    """Returns the ECDF of a sample in ascending order, and a Gaussian kernel estimate.

    The bandwidth is Silverman's rule, h = 0.9·min(σ, IQR/1.34)·n^(−1/5); σ alone if the IQR is 0
    (Silverman, "Density Estimation for Statistics and Data Analysis", 1986, eq. 3.31).
    """
    count = len(ordered)
    shares = (_TAIL, 0.25, 0.75, 1 - _TAIL)
    low, first, third, high = (float(ordered[round(share * (count - 1))]) for share in shares)
    spread, between = float(ordered.std(correction=0)), (third - first) / 1.34
    rule = 0.9 * (min(spread, between) if between > 0 else spread) * count**-0.2
    band = max(rule, (high - low) / POINTS, 1e-9 * max(1.0, abs(low)))
    values = _grid(low - 3 * band, high + 3 * band)
    start, stop = float(values[0]) - 4 * band, float(values[-1]) + 4 * band
    weights = torch.histc(ordered, bins=_BINS, min=start, max=stop)
    width = (stop - start) / _BINS
    centres = start + width * (torch.arange(_BINS, dtype=torch.float64) + 0.5)
    kernels = torch.exp(-(((values[:, None] - centres) / band) ** 2) / 2)
    density = kernels @ weights / (count * band * math.sqrt(2 * math.pi))
    below = torch.searchsorted(ordered, values, right=True)
    return Distribution(values, density, below.double() / count)


def _grid(low: float, high: float) -> Tensor:
    if not high - low > 1e-9 * max(1.0, abs(low)):  # all rewards are one
        low, high = low - 0.5, high + 0.5
    return torch.linspace(low, high, POINTS, dtype=torch.float64)


@base("environment")
class Environment(Registered, ABC):
    """A bandit problem, which draws pools and knows their truth.

    A subclass writes `_pools`. Its constructor takes keyword-only plain data, stores each argument
    under its own name, and sets `features` (d), `places` (K), `group_names` (G of them) and
    `truth`. All randomness comes from `self.streams`, addressed by round. A subclass never modifies
    draws of a stream, nor pools that it has returned.
    """

    rounds: ClassVar[int] = 5000
    """The number of rounds T of a run that does not set `rounds`."""
    exploration: ClassVar[float] = 1.0
    """The `exploration` of optimistic estimators that do not set it."""

    features: int
    places: int
    group_names: tuple[str, ...]
    truth: Truth | None
    streams: Streams

    @classmethod
    def fingerprint(cls, parameters: Mapping[str, Any]) -> str | None:
        """Returns a hash of the data that an environment with these parameters plays.

        A finished run is played again if the hash changes, or is None because a file is missing.
        The hash covers the files that a parameter of the constructor names; a subclass that reads
        other files returns their `data_hash`. The data are not loaded.
        """
        texts = (value for value in parameters.values() if isinstance(value, str))
        # `Path.is_file` would raise an error for some texts that cannot be paths
        return data_hash(Path(text) for text in texts if os.path.isfile(text))  # noqa: PTH113

    def bind(self, streams: Streams) -> None:
        """Sets the streams from which pools are drawn, and with them the device."""
        self.streams = streams

    @contextmanager
    def bound(self, streams: Streams) -> Iterator[None]:
        """Binds the environment to some streams for the block; other threads wait until it ends."""
        with _binding:
            if getattr(self, "streams", None) is not streams:
                self.bind(streams)
            yield

    def pools(self, first: int, count: int) -> Pools:
        """Returns rounds first … first+count−1, from 1, of every replica of the bound streams.

        Raises:
            FairbanditError: a shape or dtype is wrong, a group unknown, or a value not finite.
        """
        pools = self._pools(first, count)
        places = (len(self.streams.replicas), count, self.places)
        for name, got in vars(pools).items():
            shape = (*places, self.features) if name == "contexts" else places
            dtype = torch.int64 if name == "groups" else torch.float64
            if tuple(got.shape) != shape or got.dtype != dtype:
                raise FairbanditError(
                    f"{self} gave {name} of shape {tuple(got.shape)} and "
                    f"{got.dtype}; expected {shape} (replicas, rounds, places, …) and {dtype}"
                )
            bounds = (-2, len(self.group_names)) if name == "groups" else (-math.inf, math.inf)
            valid = (bounds[0] < got) & (got < bounds[1])
            if not valid.all():
                replica, offset, place = (~valid).nonzero()[0, :3].tolist()
                raise FairbanditError(
                    f"{self} gave {name} of {got[~valid][0].item()} at "
                    f"replica {self.streams.replicas[replica]}, round {first + offset}, place "
                    f"{place}; groups are 0 to {len(self.group_names) - 1}, or -1 in an empty "
                    "place, and numbers are finite"
                )
        return pools

    def reward_distribution(self, group: int) -> Distribution | None:
        """Returns the distribution of a group's true rewards in round 1; None without a truth."""
        if self.truth is None:
            return None
        theta, cdf = self.truth.theta, self.truth.cdf

        def share(values: Tensor) -> Tensor:
            values = values if theta is None else values.to(theta.device)
            groups = torch.full_like(values, group, dtype=torch.int64)
            return cdf(groups, values, torch.ones_like(groups)).cpu()

        return of_cdf(share)

    @abstractmethod
    def _pools(self, first: int, count: int) -> Pools:
        """Draws rounds first … first+count−1; the public `pools` checks them."""
