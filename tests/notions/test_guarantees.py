"""The chains' guarantees where they can fail: few features, little noise, many exclusions.

A run has a violation if in any of its rounds somebody was more likely to be picked than a
candidate of at least the same true merit. The share of runs that have one is at most δ.
"""

from __future__ import annotations

from math import comb
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit import Engine, Policy, build
from fairbandit.environments import Environment, Pools, Truth
from fairbandit.metrics import Merit, PreferenceViolations
from fairbandit.ranks import IntervalCdf, Scored
from fairbandit.streams import Purpose
from tests import support

RUNS, DELTA = 1000, 0.1


class Mirrored(Environment):
    """Two groups, a candidate of each: their skills, u and 1 − u, mirror each other.

    u is uniform on [0, 1], so that within either group contexts are independent and identically
    distributed, and candidates differ by more than if all were independent. The features are the
    group and the skill, d = 2, θ = (0.1, 1), and the noise is normal with deviation 0.01.
    """

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 2, 2, ("left", "right")
        self.truth = Truth(
            torch.tensor([0.1, 1.0], dtype=torch.float64),
            lambda groups, values, rounds: (values - 0.1 * groups).clamp(0, 1),
        )

    def _pools(self, first: int, count: int) -> Pools:
        assert self.truth is not None
        u = self.streams[Purpose.POOLS].uniform(first, count, 1)
        skill = torch.cat([u, 1 - u], 2)
        groups = torch.arange(2).expand(skill.shape)
        contexts = torch.stack([groups.double(), skill], 3)
        expected = self.truth.score(contexts, groups, groups)
        noise = self.streams[Purpose.REWARDS].normal(first, count, 2)
        return Pools(contexts, groups, expected + 0.01 * noise, expected, skill)


class HastyCdf(IntervalCdf):
    """The intervals of relative ranks with ε_n divided by 20."""

    def width(self, scored: Scored) -> Tensor:
        """ε_n / 20."""
        return super().width(scored) / 20


def chain(name: str, **estimator: Any) -> Policy:
    """A chain whose R and S are valid for the problem, and whose δ is 0.1 in all."""
    policy = support.policy(
        name,
        subgaussian=0.01,
        regularization=1e-3,
        norm=1.01,  # ‖θ‖ is √1.01
        delta=DELTA if name == "interval_chain" else DELTA / 2,
        **estimator,
    )
    if name == "interval_chain":
        return policy
    return support.replaced(policy, rank=IntervalCdf(delta=DELTA / 2))


def played(policy: Policy, rounds: int, merit: Merit) -> tuple[int, float]:
    """In how many of the runs preferences are violated, and the share of rounds that exclude."""
    metrics = {"violations": PreferenceViolations(of=merit)}
    run = Engine(policy, Mirrored(), rounds=rounds, seed=0, replicas=range(RUNS), metrics=metrics)
    violated, excluding = torch.zeros(RUNS), 0
    for piece in run.play():
        violated += piece.metrics["violations"].sum(1)
        excluding += int((piece.propensities > 0.75).sum())  # of the two, one is left
    return int((violated > 0).sum()), excluding / (RUNS * rounds)


def holds(violated: int) -> bool:
    """The exact binomial test that a run has a violation with probability at most δ, at 0.1 %."""
    fewer = (comb(RUNS, k) * DELTA**k * (1 - DELTA) ** (RUNS - k) for k in range(violated))
    return 1 - sum(fewer) > 0.001


CASES = [("interval_chain", 120, Merit.reward), ("rank_interval_chain", 140, Merit.rank)]


@pytest.mark.parametrize(("name", "rounds", "merit"), CASES)
def test_nobody_is_preferred_to_the_as_good(name: str, rounds: int, merit: Merit) -> None:
    violated, excluding = played(chain(name), rounds, merit)
    assert excluding >= 0.25
    assert holds(violated)


@pytest.mark.parametrize(("name", "rounds", "merit"), CASES)
def test_intervals_a_twentieth_as_wide_fail(name: str, rounds: int, merit: Merit) -> None:
    """For rewards the radius is divided by 20, for ranks ε_n."""
    if merit is Merit.reward:
        policy = chain(name, exploration=1 / 20)
    else:
        policy = support.replaced(chain(name), rank=HastyCdf(delta=DELTA / 2))
    violated, _ = played(policy, rounds, merit)
    assert not holds(violated)


def test_the_probabilities_of_a_chain_are_judged() -> None:
    """Whoever maximises the same estimates violates preferences at once."""
    policy = build({**support.NOTIONS["interval_chain"], "selector": "argmax"})
    assert isinstance(policy, Policy)
    assert not holds(played(policy, 20, Merit.reward)[0])
