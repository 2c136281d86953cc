"""A problem whose laws of scores are known for any model: two uniform features for each group."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairbandit import Engine
from fairbandit.environments import Environment, Pools
from fairbandit.maths.picks import of_pick
from fairbandit.streams import Purpose
from tests import support


class Slices(Environment):
    """A candidate of group i has U, U′ ~ U(0, 1) at features 2i and 2i + 1, and 0 elsewhere.

    Args:
        places: K.
        shares: P(s_a = i), alike at all places; by default place a belongs to group a.
        noise: the standard deviation of the reward noise.
    """

    part_name = "slices"

    def __init__(
        self, *, places: int, shares: Sequence[float] | None = None, noise: float = 0.5
    ) -> None:
        self.places, self.shares, self.noise = places, shares, noise
        count = places if shares is None else len(shares)
        self.group_names = tuple(map(str, range(count)))
        self.features = 2 * count
        self.theta = 1 + torch.arange(2 * count, dtype=torch.float64) % 3
        self.truth = None

    def _pools(self, first: int, count: int) -> Pools:
        drawn = self.streams[Purpose.POOLS].uniform(first, count, 3 * self.places)
        drawn = drawn.view(*drawn.shape[:2], self.places, 3)
        if self.shares is None:
            groups = torch.arange(self.places).expand(drawn.shape[:3])
        else:
            ends = torch.tensor(self.shares, dtype=torch.float64).cumsum(0)[:-1]
            groups = torch.searchsorted(ends, drawn[..., 0].contiguous())
        contexts = drawn.new_zeros(*drawn.shape[:3], self.features)
        contexts.scatter_(3, 2 * groups[..., None] + torch.arange(2), drawn[..., 1:])
        expected = contexts @ self.theta
        noise = self.streams[Purpose.REWARDS].normal(first, count, self.places)
        ranks = heights(contexts, groups, self.theta.expand(len(drawn), -1))
        return Pools(contexts, groups.contiguous(), expected + self.noise * noise, expected, ranks)


def heights(contexts: Tensor, groups: Tensor, models: Tensor) -> Tensor:
    """F_Z(⟨μ, x⟩), where Z = ⟨μ, X⟩ = mU + m′U′ is a score of the group of x: (B, N, K).

    With positive m and m′ the CDF is Σ ±max(z − corner, 0)²/(2mm′) over the corners 0, m, m′ and
    m + m′. A negative m is one for −m that starts lower, since U and 1 − U have one law.

    Args:
        contexts: (B, N, K, d).
        groups: (B, N, K).
        models: μ, one a replica, (B, d).
    """
    pairs = models.view(len(models), -1, 2)
    own = pairs.gather(1, groups.flatten(1)[..., None].expand(-1, -1, 2))
    own = own.view(*groups.shape, 2)
    scores = torch.einsum("bnkd,bd->bnk", contexts, models) - own.clamp(max=0).sum(-1)
    one, other = own.abs().unbind(-1)
    corners = ((0 * one, 1), (one, -1), (other, -1), (one + other, 1))
    total = sum(sign * (scores - corner).clamp(min=0) ** 2 for corner, sign in corners)
    return torch.as_tensor(total / (2 * one * other)).clamp(0, 1)


class Run:
    """Fair-Greedy on `Slices`, with the models that it learned, by direct solves.

    Attributes:
        pools: of all rounds.
        actions: (B, T).
        models: μ_t̃ for t̃ = 1, 2, …, (B, T/2, d).
    """

    def __init__(self, world: Slices, rounds: int, replicas: int, seed: int) -> None:
        chosen = support.policy("fair_greedy", regularization=0.1)
        engine = Engine(chosen, world, rounds=rounds, seed=seed, replicas=range(replicas))
        self.actions = torch.cat([played.actions for played in engine.play()], 1)
        self.pools = world.pools(1, rounds)
        picked = of_pick(self.pools.contexts, self.actions)
        rewards = of_pick(self.pools.rewards, self.actions)
        self.models = models(world, picked, rewards, regularization=0.1, noise=1e-8)[0]

    def ordered(self, t: int) -> tuple[Tensor, Tensor]:
        """F_Z at the scores of rounds t̃ + 1 … t − 1 under μ_t̃, by group in ascending order.

        Returns:
            (B, G, n·K), with 1 behind each group's last; and how many each group has, (B, G).
        """
        learned = (t - 1) // 2
        past = self.pools[learned : t - 1]
        values = heights(past.contexts, past.groups, self.models[:, learned - 1]).flatten(1)
        codes = torch.arange(self.models.shape[2] // 2)
        own = past.groups.flatten(1)[:, None] == codes[:, None]
        return values[:, None].masked_fill(~own, 1).sort(2).values, own.sum(2)


def models(
    world: Environment, picked: Tensor, rewards: Tensor, regularization: float, noise: float
) -> tuple[Tensor, Tensor]:
    """μ_t̃ and V_t̃ for t̃ = 1 … T/2, by direct solves.

    Args:
        world: bound to the streams of the run.
        picked: contexts of the picks, (B, T, d).
        rewards: of the picks, (B, T).
        regularization: λ.
        noise: ρ.

    Returns:
        (B, T/2, d) and (B, T/2, d, d).
    """
    rounds = picked.shape[1]
    gamma = world.streams[Purpose.ESTIMATOR].normal(1, rounds, world.features)
    half = slice(rounds // 2)
    products = (picked[..., :, None] * picked[..., None, :])[:, half].cumsum(1)
    gram = products + regularization * torch.eye(world.features, dtype=torch.float64)
    targets = (picked * rewards[..., None])[:, half].cumsum(1)
    nodes = torch.arange(1, rounds // 2 + 1, dtype=torch.float64)[:, None]
    theta = torch.linalg.solve(gram, targets)
    return theta + noise / (world.features * nodes.sqrt()) * gamma[:, half], gram
