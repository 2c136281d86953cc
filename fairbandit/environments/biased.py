"""Groups whose rewards, or whose features, are recorded with a bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

import torch
from torch import Tensor

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.errors import FairbanditError
from fairbandit.registry import register
from fairbandit.streams import Purpose, Streams


class Recorded(Enum):
    """The part of the data that is recorded with a bias; it decides the true rewards."""

    rewards = "rewards: the true reward is ⟨θ, x⟩"
    features = "features: rewards are right, and the true reward is ⟨θ, x⟩ plus the offset"


@register("environment", "biased")
class Biased(Environment):
    """One candidate of each of G groups, whose rewards differ by an offset at equal features.

    The features of group g are x = z + leadsᵍ·θ/‖θ‖² with z standard normal, so that ⟨θ, x⟩ is
    normal with the mean leadsᵍ and the standard deviation ‖θ‖. No feature names the group. The
    observed reward is ⟨θ, x⟩ + offsetsᵍ + noise·ξ with ξ standard normal.

    Two stories fit these data, and no policy can tell them apart. With biased=rewards the offset is
    a bias of the observed rewards, and the true reward is ⟨θ, x⟩: groups with larger leads are
    better. With biased=features the features are off by their leads and the offsets make up for
    this: the true reward is ⟨θ, x⟩ + offsetsᵍ, so that by default all groups are alike.

    Args:
        theta: θ, (d,), not all 0.
        leads: the mean of ⟨θ, x⟩ in each of the G groups, at least 2.
        offsets: the number added to the observed rewards of each group.
        biased: the part of the data with the bias, `rewards` or `features`.
        noise: the standard deviation of the reward noise, at least 0.

    Raises:
        FairbanditError: values out of range, or leads and offsets of different numbers of groups.

    Reference:
        Schumann, Lang, Mattei and Dickerson, "Group Fairness in Bandits with Biased Feedback",
        AAMAS 2022 (biased rewards).
    """

    rounds = 3000

    def __init__(
        self,
        *,
        theta: Sequence[float] = (1.0, -1.0, 0.5, 0.5),
        leads: Sequence[float] = (2.0, 0.0, 0.0, -1.0),
        offsets: Sequence[float] = (-2.0, 0.0, 0.0, 1.0),
        biased: Recorded = Recorded.rewards,
        noise: float = 0.5,
    ) -> None:
        self.theta, self.leads, self.offsets = list(theta), list(leads), list(offsets)
        self.biased, self.noise = biased, noise
        finite = all(map(math.isfinite, (*theta, *leads, *offsets, noise)))
        if not (finite and any(theta) and noise >= 0 and len(offsets) == len(leads) >= 2):
            raise FairbanditError(
                "environment: expected finite numbers, theta not all 0, as many offsets as leads, "
                f"2 or more, and noise at least 0; got {self.theta}, {self.leads}, {self.offsets} "
                f"and {noise}"
            )
        self.features, self.places = len(theta), len(leads)
        self.group_names = tuple(str(group) for group in range(self.places))
        self.bind(Streams(0, []))

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        numbers = (self.theta, self.leads, self.offsets)
        parts = (torch.tensor(part, dtype=torch.float64, device=streams.device) for part in numbers)
        theta, leads, offsets = self._numbers = tuple(parts)
        right = self.biased is Recorded.features
        means = leads + offsets if right else leads

        def rewards(contexts: Tensor, groups: Tensor, rounds: Tensor) -> Tensor:
            return contexts @ theta + offsets[groups]

        def cdf(groups: Tensor, values: Tensor, rounds: Tensor) -> Tensor:
            return torch.special.ndtr((values - means[groups]) / theta.norm())

        self.truth = Truth(None, cdf, rewards) if right else Truth(theta, cdf)

    def _pools(self, first: int, count: int) -> Pools:
        assert self.truth is not None
        theta, leads, offsets = self._numbers
        k, d = self.places, self.features
        z = self.streams[Purpose.POOLS].normal(first, count, k * d).unflatten(-1, (k, d))
        contexts = z + leads[:, None] * theta / theta.square().sum()
        groups = torch.arange(k, device=z.device).expand(contexts.shape[:3])
        rounds = torch.arange(first, first + count, device=z.device)[:, None]
        noise = self.streams[Purpose.REWARDS].normal(first, count, k)
        rewards = contexts @ theta + offsets + self.noise * noise
        expected = self.truth.score(contexts, groups, rounds)
        ranks = self.truth.cdf(groups, expected, rounds)
        return Pools(contexts, groups, rewards, expected, ranks)
