"""The paper's simulation: groups with diverse reward distributions (Sec. 6, App. D.1).

True rewards are weighted sums of independent uniforms, whose CDF is exact (weighted Irwin-Hall).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from functools import cache
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairbandit.environments.base import POINTS, Distribution, Environment, Pools, Truth, of_sample
from fairbandit.errors import FairbanditError
from fairbandit.registry import register
from fairbandit.streams import Purpose, Streams
from fairbandit.tables.population import GroupedCdf

CdfSource = Enum("CdfSource", ["exact", "sampled"])
MAX_TERMS = 12  # the largest number m of nonzero weights of a group, since the sum has 2^m terms
ACCURACY = 1e-9  # the largest rounding error that the alternating sum may have
WORK = 1 << 16  # the most terms computed at a time, so that they stay in cache
RANGE = 650.0  # the largest |ln totalᵐ| for which no term of the sum underflows or overflows


class UniformSums:
    """The CDFs of weighted sums of independent uniforms plus an offset, one for each group.

    F(v) = 1/(m! ∏wᵢ) · Σ_{S ⊆ [m]} (−1)^{|S|} (v − Σ_{i∈S} wᵢ)₊^m for m positive weights (Hall,
    "The distribution of means for samples of size N", Biometrika 1927). Negative weights are made
    positive by U → 1 − U, and zero weights are dropped. Values above the middle use the mirrored
    lower tail, where cancellation is smaller.
    """

    def __init__(self, weights: Sequence[Sequence[float]], offsets: Sequence[float]) -> None:
        expansions = [_expansion(tuple(terms)) for terms in weights]
        powers = [len(terms) for terms, _ in expansions]
        starts = [o + sum(w for w in ws if w < 0) for ws, o in zip(weights, offsets, strict=True)]
        totals = [math.fsum(terms) for terms, _ in expansions]
        self._frames = torch.tensor([starts, totals, powers], dtype=torch.float64)
        subsets = [rows.T for _, rows in expansions]  # padded with edge and factor 0
        self._subsets = pad_sequence(subsets).movedim(2, 0)  # (2, S, G)
        self._powers = powers

    def __call__(self, groups: Tensor, values: Tensor, rounds: Tensor | None = None) -> Tensor:
        """P(offset + Σᵢ wᵢUᵢ ≤ v) for each value v and its group; 0 where the group is −1."""
        size = max(WORK // self._subsets.shape[1], 1)
        codes = groups.clamp(min=0).flatten()
        parts = zip(codes.split(size), values.flatten().split(size), strict=True)
        shares = torch.cat([self._shares(*part) for part in parts])
        return shares.view(values.shape).masked_fill_(groups < 0, 0)

    def _shares(self, groups: Tensor, values: Tensor) -> Tensor:
        """The CDF of groups (n,), none of them −1, at values (n,)."""
        start, total, power = self._frames.to(values.device)[:, groups]
        edges, factors = self._subsets.to(values.device)[..., groups]
        shifted = values - start
        mirrored = total - shifted
        powers = above = (torch.minimum(shifted, mirrored) - edges).clamp_(min=0)
        for exponent in range(2, max(self._powers) + 1):  # several times as fast as `pow`
            counts = (power >= exponent).to(above.dtype)
            # a factor of 1 once the power is reached; this is faster than `torch.where`
            powers = powers * torch.addcmul(1 - counts, above, counts)
        tail = _total(powers.mul_(factors)).clamp_(0, 1)
        shares = torch.where(shifted > mirrored, 1 - tail, tail)
        return torch.where(power > 0, shares, (shifted >= 0).to(values.dtype))


def uniform_sum_pdf(values: Tensor, weights: Sequence[float], offset: float = 0.0) -> Tensor:
    """Returns the density of offset + Σᵢ wᵢUᵢ, of which some weight must not be 0."""
    terms, subsets = _expansion(tuple(weights))
    shifted = values - offset - sum(w for w in weights if w < 0)
    lower = torch.minimum(shifted, math.fsum(terms) - shifted)
    density = torch.zeros_like(lower)
    for edge, factor in subsets.T.tolist():
        above = lower - edge
        power = torch.where(above >= 0, above.clamp(min=0) ** (len(terms) - 1), 0.0)
        density += len(terms) * factor * power
    return density


def _total(terms: Tensor) -> Tensor:
    """The sum over the first dimension, in an order independent of the other dimensions."""
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        terms[: len(terms) - half] += terms[half:]
        terms = terms[:half]
    return terms[0]


@cache
def _expansion(weights: tuple[float, ...]) -> tuple[list[float], Tensor]:
    """The magnitudes of nonzero weights, and of their subsets below half the total (2, S).

    A column of the subsets has the sum of a subset and the factor of its power.
    """
    terms = [abs(w) for w in weights if w != 0]
    total = math.fsum(terms)
    # logarithms of totalᵐ and of totalᵐ/(m! ∏w), since tiny weights underflow
    size = len(terms) * math.log(total) if terms else 0.0
    loss = sum(math.log(total / w) for w in terms) - math.lgamma(len(terms) + 1)
    inexact = abs(size) > RANGE or loss > math.log(ACCURACY / torch.finfo(torch.float64).eps)
    if len(terms) > MAX_TERMS or inexact:
        raise FairbanditError(
            f"the exact CDF takes at most {MAX_TERMS} nonzero weights a group, of similar size and "
            f"near 1; got {terms}; use the sampled CDF"
        )
    scale = math.factorial(len(terms)) * math.prod(terms)
    every = [subset for n in range(len(terms) + 1) for subset in combinations(terms, n)]
    lower = [s for s in every if math.fsum(s) < total / 2] or every  # without terms, total = 0
    rows = [[math.fsum(s) for s in lower], [(-1) ** len(s) / scale for s in lower]]
    return terms, torch.tensor(rows, dtype=torch.float64)


@register("environment", "simulation")
class Simulation(Environment):
    """Synthetic groups with diverse reward distributions (paper, Sec. 6 and App. D.1).

    There is one candidate for each group, K = G. Candidate a has its own slice of (d − 1)/G
    features, which are independent and uniform on [0, 1], and the last feature bias·a; its other
    features are 0 (the paper's x = B_a·Y + c_a). The true reward ⟨θ, x⟩ is a weighted sum of
    uniforms plus a constant; its CDF is the group's true CDF. The observed reward is
    ⟨θ, x⟩ + noise·ξ with ξ standard normal.

    Args:
        groups: G = K, the number of groups.
        theta: the true θ, (d,): the weights of the G slices, then of the last feature.
        bias: the last feature of candidate a, from 0, is bias·a.
        noise: standard deviation of the reward noise, at least 0.
        cdf: `exact`, or `sampled` as in the paper.
        cdf_samples: sample size of the sampled CDF, for each group.

    Raises:
        FairbanditError: a θ that does not divide into the groups, or values out of range.

    Reference:
        Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022.
    """

    def __init__(
        self,
        *,
        groups: int = 4,
        theta: Sequence[float] = (4, 3, 7, 0, 8, 0, 0, 0, 5, 5, 0, 0, 2, 2, 2, 2, 1),
        bias: float = 3.0,
        noise: float = 2.0,
        cdf: CdfSource = CdfSource.exact,
        cdf_samples: int = 10_000_000,
    ) -> None:
        if groups < 2 or len(theta) < groups + 1 or (len(theta) - 1) % groups:
            raise FairbanditError(
                "environment.groups must be at least 2, and environment.theta must hold a slice of "
                "equal length for each group and one weight for the bias; got "
                f"{groups} groups and {len(theta)} values"
            )
        if not np.isfinite([*theta, bias, noise]).all() or noise < 0 or cdf_samples < 1:
            raise FairbanditError(
                "environment.theta, bias and noise must be finite, noise at least 0, and "
                f"cdf_samples at least 1; got {list(theta)}, {bias}, {noise} and {cdf_samples}"
            )
        self.groups, self.theta, self.bias, self.noise = groups, list(theta), bias, noise
        self.cdf, self.cdf_samples = cdf, cdf_samples
        self.features, self.places = len(theta), groups
        self.group_names = tuple(str(group) for group in range(groups))
        self.slice = (len(theta) - 1) // groups
        self.weights = [list(theta[a * self.slice : (a + 1) * self.slice]) for a in range(groups)]
        self.offsets = [theta[-1] * bias * a for a in range(groups)]
        exact = cdf is CdfSource.exact
        self._cdf = UniformSums(self.weights, self.offsets) if exact else self._sampled_cdf()
        self.bind(Streams(0, []))

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        theta = torch.tensor(self.theta, dtype=torch.float64, device=streams.device)
        cdf = self._cdf.to(streams.device) if isinstance(self._cdf, GroupedCdf) else self._cdf
        self.truth = Truth(theta, cdf)

    def reward_distribution(self, group: int) -> Distribution | None:
        """Returns the distribution of a group in closed form, or of the CDF's sample."""
        if isinstance(self._cdf, GroupedCdf):
            return of_sample(self._cdf.samples[group])
        weights, offset = self.weights[group], self.offsets[group]
        if not any(weights):  # one reward, and no density
            return super().reward_distribution(group)
        low = offset + sum(weight for weight in weights if weight < 0)
        high = low + sum(map(abs, weights))
        margin = 0.02 * (high - low)  # shows where a density ends that is not 0 there
        values = torch.linspace(low - margin, high + margin, POINTS, dtype=torch.float64)
        cdf = UniformSums([weights], [offset])(torch.zeros_like(values, dtype=torch.int64), values)
        return Distribution(values, uniform_sum_pdf(values, weights, offset), cdf)

    def _sampled_cdf(self) -> GroupedCdf:
        generator = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(self.cdf_samples,)))
        samples = [np.full(self.cdf_samples, offset) for offset in self.offsets]
        for sample, weights in zip(samples, self.weights, strict=True):
            for weight in weights:
                sample += weight * generator.random(self.cdf_samples)
        return GroupedCdf([*map(torch.from_numpy, samples)])

    def _pools(self, first: int, count: int) -> Pools:
        assert self.truth is not None
        theta, streams = self.truth.linear_theta(), self.streams
        drawn = streams[Purpose.POOLS].uniform(first, count, self.groups * self.slice)
        replicas = drawn.shape[0]
        contexts = drawn.new_zeros(replicas, count, self.groups, self.features)
        for a in range(self.groups):
            columns = slice(a * self.slice, (a + 1) * self.slice)
            contexts[:, :, a, columns] = drawn[:, :, columns]
            contexts[:, :, a, -1] = self.bias * a
        groups = torch.arange(self.groups, device=drawn.device).expand(replicas, count, -1)
        expected = contexts @ theta
        noise = streams[Purpose.REWARDS].normal(first, count, self.groups)
        rounds = torch.arange(first, first + count, device=drawn.device)[:, None]
        ranks = self.truth.cdf(groups, expected, rounds)
        return Pools(contexts, groups, expected + self.noise * noise, expected, ranks)
