"""Laws of true rewards: a CDF, and nodes to average over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments import Environment, Simulation, Table
from fairbandit.errors import FairbanditError
from fairbandit.maths.uniform_sum import uniform_sum_cdf, uniform_sum_pdf

PIECES = 2048
"""Into about so many pieces the support of a sum of few uniforms is cut, 4 nodes each."""

FEW = 6
"""A sum of more uniforms has a density so smooth that PIECES/16 do, whatever its knots."""


@dataclass(frozen=True)
class Law:
    """The law of a group's true reward.

    Attributes:
        cdf: F at values of any shape.
        nodes: values, (n,), over which Σ weights·h(nodes) is the mean of h.
        weights: (n,), of sum 1.
        low: the least value.
        high: the greatest.
        sample: the values, where they are drawn from a law to be estimated by theirs.
    """

    cdf: Callable[[Tensor], Tensor]
    nodes: Tensor
    weights: Tensor
    low: float
    high: float
    sample: Tensor | None = None


def uniform_sum_law(weights: Sequence[float], offset: float = 0.0) -> Law:
    """The law of offset + Σᵢ wᵢUᵢ; means by Gauss-Legendre quadrature between the density's knots.

    Args:
        weights: w, at least one of them nonzero.
        offset: a constant.

    Raises:
        FairbanditError: no nonzero weight, or weights without a closed form.

    >>> law = uniform_sum_law([2.0, -1.0], offset=3.0)
    >>> round(float((law.weights * law.nodes).sum()), 12)
    3.5
    """
    terms = [w for w in weights if w]
    low = offset + math.fsum(w for w in terms if w < 0)
    high = offset + math.fsum(w for w in terms if w > 0)
    uniform_sum_pdf(torch.tensor([low], dtype=torch.float64), terms)  # refuses before 2^m knots
    edges = _edges([abs(w) for w in terms], low, high)
    points, shares = np.polynomial.legendre.leggauss(4)
    left, right = torch.from_numpy(edges[:-1, None]), torch.from_numpy(edges[1:, None])
    nodes = ((left + right) / 2 + (right - left) / 2 * torch.from_numpy(points)).flatten()
    widths = ((right - left) / 2 * torch.from_numpy(shares)).flatten()
    masses = widths * uniform_sum_pdf(nodes, terms, offset)
    cdf = partial(uniform_sum_cdf, weights=terms, offset=offset)
    return Law(cdf, nodes, masses / masses.sum(), low, high)


def _edges(sizes: Sequence[float], low: float, high: float) -> NDArray[np.float64]:
    """Where the pieces begin and end, the density's knots among them."""
    if len(sizes) > FEW:
        return np.linspace(low, high, PIECES // 16 + 1)
    subsets = (combinations(sizes, size) for size in range(len(sizes) + 1))
    knots = [min(high, low + math.fsum(some)) for some in chain.from_iterable(subsets)]
    return np.unique(np.concatenate([knots, np.linspace(low, high, PIECES + 1)]))


def empirical_law(values: Tensor, *, sample: bool = False) -> Law:
    """The law of one of finitely many values, all equally likely.

    Args:
        values: (n,).
        sample: whether they are drawn from a law to be estimated, rather than being all there is.

    Raises:
        FairbanditError: no values.
    """
    count = len(values)
    if not count:
        raise FairbanditError("a law takes at least one value, got none")
    ordered = values.sort().values

    def cdf(at: Tensor) -> Tensor:
        return torch.searchsorted(ordered, at.contiguous(), right=True).double() / count

    weights = torch.full_like(ordered, 1 / count)
    drawn = ordered if sample else None
    return Law(cdf, ordered, weights, float(ordered[0]), float(ordered[-1]), drawn)


def laws(environment: Environment) -> list[Law]:
    """The law of each group's true reward, exact for the simulation and over a table's members.

    Raises:
        FairbanditError: a group of the simulation without a density.
    """
    if isinstance(environment, Simulation) and type(environment)._pools is Simulation._pools:
        parts = zip(environment.weights, environment.offsets, strict=True)
        return [uniform_sum_law(weights, offset) for weights, offset in parts]
    count = len(environment.group_names)
    if isinstance(environment, Table) and type(environment)._pools is Table._pools:
        members = environment.members
        return [empirical_law(members.expected[members.groups == g].cpu()) for g in range(count)]
    from fairbandit.theory.sampled import draw

    pools = draw(environment)
    values = [pools.expected[pools.groups == g].cpu() for g in range(count)]
    return [empirical_law(some, sample=True) for some in values]
