"""An environment in which a guess of later picks is always wrong."""

from __future__ import annotations

import torch

from fairbandit.environments import Environment, Pools, Truth
from fairbandit.tables.population import GroupedCdf


class Flipping(Environment):
    """Rewards that make the other of two candidates the best one at each round, for ridge.

    The candidates are x = 1 and x = −1. Every reward is −2, but −1 in the first round. So the sum
    Σ rₛxₛ over the first t rounds is −x_t, and the sign of θ is that of the other candidate.
    """

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 1, 2, ("left", "right")
        theta = torch.ones(1, dtype=torch.float64)
        self.truth = Truth(theta, GroupedCdf([theta, -theta]))

    def _pools(self, first: int, count: int) -> Pools:
        b = len(self.streams.replicas)
        x = torch.tensor([1.0, -1.0], dtype=torch.float64).expand(b, count, 2)
        groups, rewards = torch.arange(2).expand(b, count, 2), torch.full_like(x, -2)
        if first == 1:
            rewards[:, 0] = -1
        return Pools(x[..., None], groups, rewards, x, torch.ones_like(x))
