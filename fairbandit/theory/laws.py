"""Distributions of true rewards, with their CDFs and quadrature nodes for means."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain, combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments import Environment, Simulation, Table
from fairbandit.environments.base import Pools
from fairbandit.errors import FairbanditError
from fairbandit.maths.uniform_sum import uniform_sum_cdf, uniform_sum_pdf
from fairbandit.streams import Streams

PIECES = 2048
"""The number of pieces of the support of a sum of few uniforms, with 4 nodes in each."""

SMOOTH_ABOVE = 6
"""The density of a sum of more uniforms is so smooth that PIECES/16 pieces suffice."""

DRAWN = 20_000
"""The number of rewards drawn from a group whose law has no closed form here."""

REPLICAS, ROUNDS = 16, 512
"""REPLICAS × ROUNDS pools are drawn from an environment that is known by its pools alone."""


class Law(ABC):
    """The law of a group's true reward R.

    Attributes:
        nodes: values, (n,), over which Σ weights·h(nodes) is the mean of h.
        weights: (n,), of sum 1.
        low: the least value.
        high: the greatest.
        sample: the sample size of an empirical law; 0 for any other law.
    """

    nodes: Tensor
    weights: Tensor
    low: float
    high: float
    sample: int = 0

    @abstractmethod
    def cdf(self, values: Tensor) -> Tensor:
        """F(v) = P(R ≤ v), at values of any shape."""

    def below(self, values: Tensor) -> Tensor:
        """P(R < v), at values of any shape; F(v) unless values have mass."""
        return self.cdf(values)

    def ranked(self, ranks: Tensor) -> tuple[Tensor, Tensor]:
        """P(F(R) < y) and P(F(R) ≤ y), at ranks y of any shape; y unless values have mass."""
        return ranks, ranks


class UniformSumLaw(Law):
    """The law of offset + Σᵢ wᵢUᵢ; means by Gauss-Legendre quadrature between the density's knots.

    Args:
        weights: w, at least one of them nonzero.
        offset: a constant.

    Raises:
        FairbanditError: no nonzero weight, or weights without a closed form.

    >>> law = UniformSumLaw([2.0, -1.0], offset=3.0)
    >>> round(float((law.weights * law.nodes).sum()), 12)
    3.5
    """

    def __init__(self, weights: Sequence[float], offset: float = 0.0) -> None:
        self._terms, self._offset = [w for w in weights if w], offset
        self.low = offset + math.fsum(w for w in self._terms if w < 0)
        self.high = offset + math.fsum(w for w in self._terms if w > 0)
        # refuses before 2^m knots are made
        uniform_sum_pdf(torch.tensor([self.low], dtype=torch.float64), self._terms)
        edges = _edges([abs(w) for w in self._terms], self.low, self.high)
        points, shares = np.polynomial.legendre.leggauss(4)
        left, right = edges[:-1, None], edges[1:, None]
        nodes, widths = (
            (left + right) / 2 + (right - left) / 2 * points,
            (right - left) / 2 * shares,
        )
        self.nodes = torch.from_numpy(nodes.ravel())
        density = uniform_sum_pdf(self.nodes, self._terms, offset)
        masses = torch.from_numpy(widths.ravel()) * density
        self.weights = masses / masses.sum()

    def cdf(self, values: Tensor) -> Tensor:
        """F(v) = P(R ≤ v)."""
        return uniform_sum_cdf(values, self._terms, self._offset)


def _edges(sizes: Sequence[float], low: float, high: float) -> NDArray[np.float64]:
    """The edges of the pieces, which include the knots of the density."""
    if len(sizes) > SMOOTH_ABOVE:
        return np.linspace(low, high, PIECES // 16 + 1)
    subsets = (combinations(sizes, size) for size in range(len(sizes) + 1))
    knots = [min(high, low + math.fsum(some)) for some in chain.from_iterable(subsets)]
    return np.unique(np.concatenate([knots, np.linspace(low, high, PIECES + 1)]))


class DiscreteLaw(Law):
    """The law of one of finitely many values.

    Args:
        values: equally likely values, (n,) float64; equal ones are merged.
        sample: whether the values are a sample from the law, rather than all of its values.

    Raises:
        FairbanditError: no values.

    >>> law = DiscreteLaw(torch.tensor([3.0, 1.0, 3.0, 2.0]).double())
    >>> law.cdf(torch.tensor([1.5, 3.0]).double()), law.below(torch.tensor([3.0]).double())
    (tensor([0.2500, 1.0000], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """

    def __init__(self, values: Tensor, *, sample: bool = False) -> None:
        if not len(values):
            raise FairbanditError("a law takes at least one value, got none")
        self.nodes, counts = values.unique(return_counts=True)
        # whole numbers are divided last, so that ranks are those of the environment, bit for bit
        sums = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(values)
        self._steps, self.weights = sums / len(values), counts.to(values) / len(values)
        self.low, self.high = float(self.nodes[0]), float(self.nodes[-1])
        self.sample = len(values) if sample else 0

    def cdf(self, values: Tensor) -> Tensor:
        """F(v) = P(R ≤ v)."""
        return self._steps[torch.searchsorted(self.nodes, values.contiguous(), right=True)]

    def below(self, values: Tensor) -> Tensor:
        """P(R < v)."""
        return self._steps[torch.searchsorted(self.nodes, values.contiguous())]

    def ranked(self, ranks: Tensor) -> tuple[Tensor, Tensor]:
        """P(F(R) < y) and P(F(R) ≤ y), F(R) being one of the steps."""
        steps, ranks = self._steps[1:], ranks.contiguous()
        fewer, most = (torch.searchsorted(steps, ranks, right=right) for right in (False, True))
        return self._steps[fewer], self._steps[most]


def laws(environment: Environment) -> list[Law]:
    """The law of each group's true reward.

    It is exact for the simulation wherever its CDF has a closed form, and over a table's members;
    otherwise it is that of rewards drawn from the environment.

    Raises:
        FairbanditError: a group of the simulation whose weights are all 0.
    """
    if isinstance(environment, Simulation) and type(environment)._pools is Simulation._pools:
        return [_of_simulation(environment, group) for group in range(environment.groups)]
    count = len(environment.group_names)
    if isinstance(environment, Table) and type(environment)._pools is Table._pools:
        members = environment.members
        return [DiscreteLaw(members.expected[members.groups == g].cpu()) for g in range(count)]
    pools = drawn_pools(environment)
    values = [pools.expected[pools.groups == g] for g in range(count)]
    return [DiscreteLaw(some, sample=True) for some in values]


def _of_simulation(world: Simulation, group: int) -> Law:
    if not any(world.weights[group]):
        raise FairbanditError(
            f"every candidate of group {world.group_names[group]} has one reward, since its "
            "weights in environment.theta are all 0: give it a weight other than 0"
        )
    if closed_form(world, group):
        return UniformSumLaw(world.weights[group], world.offsets[group])
    return DiscreteLaw(drawn_rewards(world, group), sample=True)


def closed_form(world: Simulation, group: int) -> bool:
    """Whether a group's weights are few and even enough for the exact CDF of their sum."""
    try:
        uniform_sum_cdf(torch.zeros(0, dtype=torch.float64), world.weights[group])
    except FairbanditError:
        return False
    return True


def drawn_rewards(world: Simulation, group: int) -> Tensor:
    """`DRAWN` true rewards of a group of the simulation, the same at every call."""
    generator = torch.Generator().manual_seed(group)
    total = torch.full((DRAWN,), world.offsets[group], dtype=torch.float64)
    for weight in world.weights[group]:
        total += weight * torch.rand(DRAWN, dtype=torch.float64, generator=generator)
    return total


def drawn_pools(environment: Environment) -> Pools:
    """REPLICAS × ROUNDS pools of an environment, which this binds to streams of its own."""
    environment.bind(Streams(0, range(REPLICAS)))
    return environment.pools(1, ROUNDS)
