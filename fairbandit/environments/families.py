"""Synthetic families with a known truth: links, heavy tails, dependent candidates, drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

import numpy as np
import torch
from torch import Tensor

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.errors import FairbanditError
from fairbandit.registry import register
from fairbandit.streams import Purpose, Streams
from fairbandit.tables.population import GroupedCdf

Link = Enum("Link", ["identity", "logistic", "quadratic", "network"])
Noise = Enum("Noise", ["normal", "student", "bernoulli"])
Drift = Enum("Drift", ["features", "rewards", "weights"])
UNITS = 16  # of the hidden layer of the link `network`
SAMPLE = 100_000  # rewards of each group; they make the CDF of the link `network`


@register("environment", "synthetic")
class Synthetic(Environment):
    """One candidate of each of G groups, with Gaussian values and rewards through a link.

    The features of candidate g at round t are zₖ·scalesᵍ, for each of the d numbers of `theta`, and
    the G indicators of its group. Its linear value is u = ⟨theta, x⟩ + offsetsᵍ, with the standard
    deviation scalesᵍ·‖theta‖; its true reward is link(u), whose CDF follows from Φ. Group 0 drifts:
    drift·sin(2π(t − 1)/period) is added to its linear value. Or, with drifts=weights, the first two
    numbers of theta turn by this angle for all groups, which leaves each CDF as it is.

    Args:
        theta: the weights of the first d features, not all 0.
        offsets: the mean linear value of each of the G groups, at least 2.
        scales: the scale of each group's features, above 0, or one number for all.
        link: `identity`; `logistic`, 1/(1 + exp(−u)) (Filippi et al., "Parametric Bandits: The
            Generalized Linear Case", NeurIPS 2010); `quadratic`, u²; or `network`,
            offsetsᵍ + Σⱼ vⱼ·tanh(⟨wⱼ, z⟩) of the first d features z, with 16 units of fixed random
            weights. The CDF of `network` is the ECDF of 100,000 drawn rewards of each group,
            without drift.
        rewards: the observed reward: `normal` and `student` add noise; `bernoulli` pays 1 with the
            probability of the true reward, which takes the logistic link.
        noise: the scale of added noise, at least 0.
        tail: degrees of freedom of Student's t, above 1; the variance is infinite up to 2.
        dependence: the correlation, from 0 to 1, of each feature's zₖ between the candidates of a
            pool; each group's distribution stays the same.
        drift: how far group 0 drifts, or the angle of theta in radians; 0 for not at all.
        period: after how many rounds the drift repeats, above 0.
        drifts: what moves: the `features`, along θ, the `rewards`, or the `weights`, two at least.

    Raises:
        FairbanditError: values out of range, or rewards that do not go with the link.
    """

    rounds = 3000

    def __init__(
        self,
        *,
        theta: Sequence[float] = (1.0, -1.0, 0.5, 0.5),
        offsets: Sequence[float] = (0.0, 1.0, -1.0, 0.5),
        scales: Sequence[float] = (1.0, 0.5, 1.5, 1.0),
        link: Link = Link.identity,
        rewards: Noise = Noise.normal,
        noise: float = 0.5,
        tail: float = 1.5,
        dependence: float = 0.0,
        drift: float = 0.0,
        period: float = 1000.0,
        drifts: Drift = Drift.features,
    ) -> None:
        self.theta, self.offsets, self.scales = list(theta), list(offsets), list(scales)
        self.link, self.rewards, self.noise, self.tail = link, rewards, noise, tail
        self.dependence, self.drift, self.period, self.drifts = dependence, drift, period, drifts
        numbers = (*theta, *offsets, *scales, noise, tail, drift, period)
        fits = len(offsets) >= 2 and len(scales) in (1, len(offsets)) and min(scales) > 0
        fits = fits and (drifts is not Drift.weights or len(theta) >= 2)
        ranges = noise >= 0 and tail > 1 and period > 0 and 0 <= dependence <= 1
        if not (all(map(math.isfinite, numbers)) and any(theta) and fits and ranges):
            raise FairbanditError(
                "environment: expected finite numbers, theta not all 0 (two or more if weights "
                "drift), 2 or more offsets, a scale above 0 for each or for all, noise at least 0, "
                f"tail above 1, dependence from 0 to 1, period above 0; got {self.theta}, "
                f"{self.offsets}, {self.scales}, {noise}, {tail}, {dependence}, {period}, {drift}"
            )
        if rewards is Noise.bernoulli and link is not Link.logistic:
            raise FairbanditError(
                f"environment.rewards=bernoulli takes link=logistic, got link={link.name}"
            )
        if drift and link is Link.network:
            raise FairbanditError(f"environment.link=network takes drift=0, got {drift}")
        self.places = len(offsets)
        self.features = len(theta) + self.places
        self.group_names = tuple(str(group) for group in range(self.places))
        if link is Link.network:
            draws, d = np.random.default_rng(0), len(theta)
            layers = draws.normal(size=(d, UNITS)), draws.normal(size=UNITS)
            self._layers = [*map(torch.from_numpy, layers)]
            z = torch.from_numpy(draws.normal(size=(SAMPLE, d)))
            spreads = self.scales * (len(offsets) // len(scales))
            pairs = zip(spreads, offsets, strict=True)
            self._sampled = GroupedCdf([self._network(scale * z) + mean for scale, mean in pairs])
        self.bind(Streams(0, []))

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        if self.link is Link.network:
            self._layers = [layer.to(streams.device) for layer in self._layers]
            self._sampled = self._sampled.to(streams.device)
        weights = torch.tensor([*self.theta, *self.offsets], dtype=torch.float64)
        self._weights = weights.to(streams.device)
        self._means = self._weights[len(self.theta) :]
        self._scales = self._means.new_tensor(self.scales).expand(self.places)
        moved = bool(self.drift) and self.drifts is not Drift.features
        linear = self.link is Link.identity and not moved
        theta, rewards = (self._weights, None) if linear else (None, self._expected)
        self.truth = Truth(theta, self._cdf, rewards)

    def _pools(self, first: int, count: int) -> Pools:
        k, d = self.places, len(self.theta)
        drawn = self.streams[Purpose.POOLS].normal(first, count, (k + 1) * d)
        separate, common = drawn[..., : k * d].unflatten(-1, (k, d)), drawn[..., None, k * d :]
        z = math.sqrt(1 - self.dependence) * separate + math.sqrt(self.dependence) * common
        rounds = torch.arange(first, first + count, device=z.device)[:, None]
        groups = torch.arange(k, device=z.device).expand(z.shape[:3])
        values = z * self._scales[:, None]
        if self.drifts is Drift.features:
            along = self._weights[:d] / math.hypot(*self.theta) ** 2
            values = values + self._moved(groups, rounds)[..., None] * along
        indicators = torch.eye(k, dtype=z.dtype, device=z.device).expand(*z.shape[:2], k, k)
        contexts = torch.cat([values, indicators], -1)
        expected = self._expected(contexts, groups, rounds)
        ranks = self._cdf(groups, expected, rounds)
        return Pools(contexts, groups, self._observed(expected, first), expected, ranks)

    def _observed(self, expected: Tensor, first: int) -> Tensor:
        draws, shape = self.streams[Purpose.REWARDS], (first, *expected.shape[1:])
        if self.rewards is Noise.normal:
            return expected + self.noise * draws.normal(*shape)
        uniform = draws.uniform(*shape)
        if self.rewards is Noise.bernoulli:
            return (uniform < expected).to(expected.dtype)
        from scipy.special import stdtrit  # here, since it takes a while

        # half a step of the 53-bit grid keeps the quantile of 0 finite
        quantiles = stdtrit(self.tail, uniform.numpy(force=True) + 2.0**-54)
        return expected + self.noise * torch.from_numpy(quantiles).to(expected.device)

    def _wave(self, rounds: Tensor) -> Tensor:
        return self.drift * torch.sin(2 * math.pi * (rounds - 1).double() / self.period)

    def _moved(self, groups: Tensor, rounds: Tensor) -> Tensor:
        """Returns how far the linear value of each candidate has drifted."""
        turns = self.drifts is Drift.weights
        return torch.where(groups == (-1 if turns else 0), self._wave(rounds), 0.0)

    def _network(self, z: Tensor) -> Tensor:
        hidden, out = self._layers
        return torch.tanh(z @ hidden) @ out

    def _expected(self, contexts: Tensor, groups: Tensor, rounds: Tensor) -> Tensor:
        if self.link is Link.network:
            return self._network(contexts[..., : len(self.theta)]) + self._means[groups]
        u = contexts @ self._weights
        if self.drifts is Drift.rewards:
            u = u + self._moved(groups, rounds)
        elif self.drifts is Drift.weights and self.drift:
            (a, b), (x, y) = self._weights[:2], contexts[..., :2].unbind(-1)
            angle = self._wave(rounds)
            u = u + (angle.cos() - 1) * (a * x + b * y) + angle.sin() * (a * y - b * x)
        if self.link is Link.logistic:
            return u.sigmoid()
        return u**2 if self.link is Link.quadratic else u

    def _cdf(self, groups: Tensor, values: Tensor, rounds: Tensor) -> Tensor:
        if self.link is Link.network:
            return self._sampled(groups, values)
        mean = self._means[groups] + self._moved(groups, rounds)
        deviation = self._scales[groups] * math.hypot(*self.theta)
        if self.link is Link.quadratic:
            root = values.clamp(min=0).sqrt()
            low, high = ((side - mean) / deviation for side in (-root, root))
            return torch.special.ndtr(high) - torch.special.ndtr(low)
        u = values.clamp(0, 1).logit() if self.link is Link.logistic else values
        return torch.special.ndtr((u - mean) / deviation)
