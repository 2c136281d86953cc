"""Problems that the tests share: constants that are easy to reckon with, and the tight example."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fairbandit import Engine
from fairbandit.environments import Environment, Pools
from fairbandit.environments.base import Truth
from fairbandit.history.outcomes import gather_picks
from fairbandit.streams import Purpose
from fairbandit.theory import Constant, Constants
from tests import support

OWN = Constants(
    places=3,
    groups=3,
    features=5,
    norm=Constant(2.0),
    eigenvalue=Constant(0.25),
    place_eigenvalue=Constant(0.25),
    density=Constant(0.5),
    noise=Constant(1.5),
    theta=3.0,
)
"""A place for each of three groups."""

MIXED = replace(OWN, places=10, groups=4, random=True, candidates=Constant(0.5))
"""Ten places whose groups are drawn from four: q_K = 0.5."""


class Tight(Environment):
    """The problem on which the repaired bound on a pick's second moment is attained.

    With probability p ≤ ½, X = (hU₁, 1 − hU₂), else X = (1 − hU₁, hU₂), U₁ and U₂ uniform, and
    μ* = (1, 0). As h → 0, λ⁺_min(Σ)/x_max² → p, and the second moment of a pick along (0, 1) → p^K.
    Place a belongs to group a mod G, or to a random one with equal probabilities.
    """

    features = 2

    def __init__(
        self, *, places: int = 2, groups: int = 2, p: float = 0.5, random: bool = False
    ) -> None:
        self.places, self.p, self.h, self.random = places, p, 1e-3, random
        self.group_names = tuple(map(str, range(groups)))
        self.truth = Truth(torch.tensor([1.0, 0.0], dtype=torch.float64), self._cdf)

    def _cdf(self, groups: Tensor, values: Tensor, rounds: Tensor) -> Tensor:
        low, high = (values / self.h).clamp(0, 1), ((values - 1) / self.h + 1).clamp(0, 1)
        return self.p * low + (1 - self.p) * high

    def _pools(self, first: int, count: int) -> Pools:
        drawn = self.streams[Purpose.POOLS].uniform(first, count, 4 * self.places)
        kind, one, two, group = drawn.view(*drawn.shape[:2], self.places, 4).unbind(-1)
        one, two = self.h * one, self.h * two
        low = kind < self.p
        contexts = torch.stack([torch.where(low, one, 1 - one), torch.where(low, 1 - two, two)], -1)
        fixed = torch.arange(self.places).expand(group.shape)
        groups = (group * len(self.group_names)).long() if self.random else fixed
        groups = groups % len(self.group_names)
        expected = contexts[..., 0].contiguous()
        noise = self.streams[Purpose.REWARDS].normal(first, count, self.places)
        ranks = self._cdf(groups, expected, groups)
        return Pools(contexts, groups, expected + noise / 10, expected, ranks)

    def constants(self) -> Constants:
        """The exact ones."""
        h = self.h
        large, small, mean = 1 - h + h**2 / 3, h**2 / 3, (1 - h / 2) * h / 2
        one = self.p * small + (1 - self.p) * large
        two = self.p * large + (1 - self.p) * small
        least = Constant(float(np.linalg.eigvalsh([[one, mean], [mean, two]])[0]))
        return Constants(
            places=self.places,
            groups=len(self.group_names),
            features=2,
            norm=Constant(float(np.sqrt(1 + h**2))),
            eigenvalue=least,
            place_eigenvalue=least,
            density=Constant((1 - self.p) / h),
            noise=Constant(0.1),
            theta=1.0,
            candidates=Constant(self.places / len(self.group_names)),
            random=self.random,
        )


def picked_contexts(world: Environment, policy: str, rounds: int, replicas: int) -> Tensor:
    """The contexts that a policy picks, (B, T, d)."""
    engine = Engine(support.policy(policy), world, rounds=rounds, seed=1, replicas=range(replicas))
    actions = torch.cat([played.actions for played in engine.play()], 1)
    return torch.as_tensor(gather_picks(world.pools(1, rounds).contexts, actions))
