"""Random policies and problems: decisions are the same in blocks, single rounds, company, an agent.

Contexts are tied, collinear, of very different scales, or far from 0: what rounding could part, and
what the rule of ties must hold together. See `fairbandit.estimators.ties`.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairbandit import Agent, Engine, Policy
from fairbandit.environments import Environment, Pools, Truth
from fairbandit.policy.build import build_policy
from fairbandit.policy.delays import Delays
from fairbandit.streams import Purpose, Streams
from fairbandit.tables.grouped_cdf import GroupedCdf

KINDS = ("normal", "whole", "categories", "collinear", "uneven", "offset", "tiny", "huge")
"""How contexts are distributed."""

SCALES = {"tiny": 1e-6, "huge": 1e6}

RANKS = (
    *("identity", "empirical_cdf", "recent_cdf", "smoothed_cdf", "shrunk_cdf", "tradeoff"),
    *("oracle_cdf", "noisy_rewards_cdf"),
)
SELECTORS = ("argmax", "epsilon_greedy", "proportional", "group_parity", "minimum_pull")
RIDGES = ("ridge", "group_ridge", "optimistic_ridge", "thompson_ridge")
OTHERS = ("oracle", "zero", "normal_scores", "pairwise_probit")


class World(Environment):
    """Pools of a kind of contexts, with linear true rewards and normal noise.

    Args:
        kind: of contexts, one of `KINDS`.
        features, places, groups: d, K and G.
        seed: of the true θ.
    """

    def __init__(self, kind: str, features: int, places: int, groups: int, seed: int) -> None:
        self.kind, self.features, self.places = kind, features, places
        self.group_names = tuple(f"g{group}" for group in range(groups))
        draws = torch.Generator().manual_seed(seed)
        theta = torch.randn(features, generator=draws, dtype=torch.float64)
        numbers = torch.randn(500, features, generator=draws, dtype=torch.float64)
        sample = self._contexts(numbers)
        theta = theta / sample.abs().mean(0).clamp(min=1e-9)  # rewards of the size of 1
        self.truth = Truth(theta, GroupedCdf([sample @ theta] * groups))

    def _contexts(self, z: Tensor) -> Tensor:
        """Contexts of the kind, from standard normal numbers (…, d)."""
        if self.kind == "whole":
            return z.round()
        if self.kind == "categories":
            return (z > 0).to(z.dtype)
        if self.kind == "collinear":
            return torch.cat([z[..., :1].round(), z[..., :1].round() * 2 + 1e-9 * z[..., 1:]], -1)
        if self.kind == "uneven":
            return z.round() * torch.logspace(-3, 3, self.features, dtype=z.dtype)
        if self.kind == "offset":
            return z.round() + 1e3
        return z * SCALES.get(self.kind, 1.0)

    def _pools(self, first: int, count: int) -> Pools:
        k, d, truth = self.places, self.features, self.truth
        assert truth is not None
        z = self.streams[Purpose.POOLS].normal(first, count, k * (d + 2)).unflatten(2, (k, d + 2))
        contexts = self._contexts(z[..., :d])
        groups = (z[..., d].abs() * 10).long() % len(self.group_names)
        expected = truth.score(contexts, groups, groups)
        ranks = truth.cdf(groups, expected, groups)
        return Pools(
            contexts, groups, (expected + z[..., d + 1]).round(decimals=2), expected, ranks
        )


def policy(draw: random.Random, scale: float) -> Policy:
    """A random policy, with a regularization that is relative to the scale of contexts."""
    estimator: dict[str, Any] = {"name": draw.choice(RIDGES if draw.random() < 0.7 else OTHERS)}
    if estimator["name"] in (*RIDGES, "forgetting_ridge"):
        estimator["regularization"] = draw.choice([1e-3, 0.1, 1.0]) * scale**2
    if estimator["name"] == "ridge":
        estimator["noise"] = draw.choice([0.0, 1e-8])
    refresh = draw.choice([None, None, 1.3])
    if estimator["name"] in ("normal_scores", "pairwise_probit"):
        refresh = 1.3
    parts = {"estimator": estimator, "split": draw.choice(["halves", "full"]), "refresh": refresh}
    parts |= {"rank": draw.choice(RANKS), "selector": draw.choice(SELECTORS)}
    if draw.random() < 0.15:
        regularization = 0.1 * scale**2
        parts["estimator"] = {"name": "optimistic_ridge", "regularization": regularization}
        parts |= {"rank": draw.choice(["identity", "interval_cdf"]), "split": "full"}
        parts["selector"] = draw.choice(["chain", "argmax"])
    return build_policy(parts)


def of_an_agent(
    made: Policy, world: World, rounds: int, seed: int, picks: int, delays: Delays
) -> list[list[int]]:
    """The picks of an agent that is shown the pools of replica 0, and told each reward in time."""
    world.bind(Streams(seed, [0]))
    pools = world.pools(1, rounds)
    groups, options = len(world.group_names), {"seed": seed, "truth": world.truth}
    agent = Agent(made, features=world.features, groups=groups, **options)  # type: ignore[arg-type]
    actions, waiting = list[list[int]](), dict[int, list[tuple[int, int]]]()
    for t in range(1, rounds + 1):
        decision = agent.act(pools.contexts[0, t - 1], pools.groups[0, t - 1], picks)
        actions.append(list(decision.picks))
        for place in decision.picks:
            waiting.setdefault(t + delays.of_round(t), []).append((t, place))
        for number, place in waiting.pop(t, []):
            agent.update(float(pools.rewards[0, number - 1, place]), number, place)
    return actions


def decisions(draw: random.Random, folder: Path) -> None:
    """One policy in one problem, played in five ways."""
    kind, seed, picks = draw.choice(KINDS), draw.randrange(1000), draw.choice([1, 1, 2, 3, 4])
    made = policy(draw, SCALES.get(kind, 1.0))
    sizes = draw.randint(2, 6), draw.randint(max(2, picks), 6), draw.randint(1, 3)
    world, rounds = World(kind, *sizes, seed), draw.randint(20, 60)
    delay = draw.choice([0, 0, 0, 3])

    def played(replicas: list[int], at_once: int | None = None) -> Tensor:
        options: dict[str, Any] = {"picks": picks, "delay": delay, "at_once": at_once}
        engine = Engine(made, world, rounds=rounds, seed=seed, replicas=replicas, **options)
        actions = torch.cat([part.actions for part in engine.play()], 1)
        return actions.reshape(len(replicas), rounds, picks)

    what = f"{made.describe()} {world.kind} {sizes}, {rounds} rounds, {picks} picks, delay {delay}"
    company = played([0, 1, 2])
    for name, other in {
        "single rounds": played([0, 1, 2], 1),
        "blocks of three": played([0, 1, 2], 3),
        "alone": torch.cat([played([0]), played([1], 1), played([2])]),
    }.items():
        assert torch.equal(company, other), f"{name}: {what}"
    delays = Delays(delay, "fixed", seed)
    agent = of_an_agent(made, world, rounds, seed, picks, delays)
    assert company[0].tolist() == agent, f"an agent: {what}"
