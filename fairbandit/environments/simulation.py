"""The paper's simulation: groups with diverse reward distributions (Sec. 6, App. D.1)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
import torch

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.environments.distribution import POINTS, Distribution, of_sample
from fairbandit.environments.uniform_sum import UniformSums, uniform_sum_pdf
from fairbandit.errors import FairbanditError
from fairbandit.registry import register
from fairbandit.streams import Purpose, Streams
from fairbandit.tables.grouped_cdf import GroupedCdf


class CdfSource(Enum):
    """How the true reward CDF is computed."""

    exact = "in closed form"
    sampled = "as the ECDF of a sample"


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
        """The distribution of a group's true rewards, in closed form or from the CDF's sample."""
        if isinstance(self._cdf, GroupedCdf):
            return of_sample(self._cdf.sample(group))
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
        return GroupedCdf([torch.from_numpy(sample) for sample in samples])

    def _pools(self, first: int, count: int) -> Pools:
        assert self.truth is not None
        theta, streams = self.truth.linear_theta(), self.streams
        drawn = streams[Purpose.POOLS].uniform(first, count, self.groups * self.slice)
        replicas = drawn.shape[0]
        contexts = drawn.new_zeros(replicas, count, self.groups, self.features)
        for a in range(self.groups):
            own = slice(a * self.slice, (a + 1) * self.slice)
            contexts[:, :, a, own] = drawn[:, :, own]
            contexts[:, :, a, -1] = self.bias * a
        groups = torch.arange(self.groups, device=drawn.device).expand(replicas, count, -1)
        expected = contexts @ theta
        noise = streams[Purpose.REWARDS].normal(first, count, self.groups)
        rounds = torch.arange(first, first + count, device=drawn.device)[:, None]
        ranks = self.truth.cdf(groups, expected, rounds)
        return Pools(contexts, groups, expected + self.noise * noise, expected, ranks)
