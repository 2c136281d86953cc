"""Contexts and rewards of any accepted size: an agent goes on deciding, and by the right model."""

from typing import Any

import numpy as np
import pytest
import torch
from fairbandit.parts.model import FactoredOptimisticModel, OptimisticModel, RewardModel
from fairbandit.parts.ridge import HEAVY
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import Agent, Engine, Policy, build
from fairbandit.agent.inputs import LARGEST
from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.streams import Purpose
from tests import support
from tests.agent import worlds
from tests.exact import EPS, Uneven

ROUNDS = 30
"""How many rounds are lived through, the first ten of them ordinary."""

SIZES = [[1e9], [1.0, 1e9], [1e50], [1e90], [LARGEST], [1e-100, 1e-50, 1.0, 1e50, LARGEST], [1e4]]
"""What later contexts and rewards are multiplied by, one at random."""


def config(name: str, regularization: float) -> dict[str, Any]:
    parts = support.policy(name, regularization=regularization).describe()
    return {kind: parts[kind] for kind in ("split", "estimator", "rank", "selector")}


def lived(
    name: str,
    seed: int,
    d: int,
    sizes: list[float],
    *,
    alike: bool = True,
    regularization: float = 0.1,
    refresh: float | None = None,
    late: float = 0.0,
) -> tuple[Agent, np.ndarray, np.ndarray]:
    """An agent after all rounds, and the rows and rewards that teach it for the next one.

    Args:
        alike: whether the entries of a context are of one size.
        late: the share of rewards that come after some more rounds.
    """
    draws = np.random.default_rng(seed)
    ones = torch.ones(d, dtype=torch.float64)
    sample = torch.linspace(-3, 3, 50, dtype=torch.float64)
    truth = Truth(ones, GroupedCdf([sample, sample + 1]))
    agent = Agent.from_config(
        config(name, regularization),
        features=d,
        groups=2,
        seed=seed,
        refresh=refresh,
        truth=truth if name == "fair_greedy_oracle_cdf" else None,
    )
    known: dict[int, tuple[np.ndarray, float]] = {}
    waiting: list[tuple[int, np.ndarray, float]] = []
    for t in range(ROUNDS):
        k = int(draws.integers(2, 6))
        size = draws.choice([1.0] if t < 10 else sizes, 2 if alike else d + 1)
        x = draws.normal(size=(k, d)).clip(-1, 1) * (size[1] if alike else size[1:])
        decision = agent.act(x, draws.integers(0, 2, k).tolist())
        reward = float(np.clip(draws.normal(), -1, 1) * size[0])
        waiting.append((decision.ticket, x[decision.candidate], reward))
        for one in list(waiting):
            if draws.random() >= late or one[0] < t - 8:
                waiting.remove(one)
                agent.update(one[2], one[0])
                known[one[0]] = one[1:]
    n_train = agent._policy.split.n_train(ROUNDS + 1)
    learned = [known[ticket] for ticket in sorted(known) if ticket <= n_train]
    return agent, np.array([x for x, _ in learned]), np.array([r for _, r in learned])


def model(agent: Agent) -> RewardModel:
    """The model of the next round, without noise."""
    policy, t = agent._policy, agent.rounds + 1
    policy.estimator.noise = 0.0  # type: ignore[attr-defined]
    pool = torch.zeros(1, 1, 1, agent._problem.features).double(), torch.zeros(1, 1, 1).long()
    with policy.mode():
        candidates, _ = policy.candidates(t, *pool, agent._history)
    return candidates.model


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["greedy", "fair_greedy", "oful", "fair_greedy_oracle_cdf"]),
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 2, 3, 17]),
    sizes=st.sampled_from(SIZES),
    alike=st.booleans(),
    regularization=st.sampled_from([1e-8, 0.1, 10.0]),
    refresh=st.sampled_from([None, 1.1, 4.0]),
    late=st.sampled_from([0.0, 0.4]),
)
def test_no_size_stops_an_agent_and_models_are_right(
    name: str, seed: int, d: int, **how: Any
) -> None:
    """Against rational numbers, up to the digits that steps may lose: those of `HEAVY`."""
    agent, x, r = lived(name, seed, d, **how)
    found = model(agent).parameters
    assert agent.rounds == ROUNDS
    assert all(bool(part.isfinite().all()) for part in found)
    # where the exact solution takes no time, and steps lose no more digits
    exact_too = name in ("greedy", "fair_greedy") and d <= 3 and how["sizes"] != [1e4]
    if exact_too and how["alike"] and how["regularization"] > 1e-4:
        exact = Uneven(x, r, how["regularization"])
        theta = found[0][0, 0].numpy()
        for y in np.eye(d):
            assert exact.prediction(theta, y) < ROUNDS * HEAVY * EPS


@pytest.mark.parametrize("few", [0, 12])
@pytest.mark.parametrize("size", [1e9, 1e90])
def test_bonuses_are_right(size: float, few: int) -> None:
    """Also where so few contexts are large that V⁻¹ is beyond double precision."""
    agent, x, r = lived("oful", 2, 3, [1.0] * few + [size])
    exact, found = Uneven(x, r, 0.1), model(agent)
    assert isinstance(found, OptimisticModel)
    assert isinstance(found, FactoredOptimisticModel) == (few > 0)
    for y in [*np.eye(3), *np.random.default_rng(0).normal(size=(3, 3))]:
        norm = float(found._norm(torch.from_numpy(y)[None, None, None]))
        assert exact.spread(norm**2, y) < ROUNDS * HEAVY * EPS


class Wild(Environment):
    """Ordinary rounds, but for a few of 1e9 in some replicas."""

    part_kind, part_name = "environment", "wild"

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 3, 4, ("one", "other")
        self.truth = None

    def _pools(self, first: int, count: int) -> Pools:
        k, d = self.places, self.features
        drawn = self.streams[Purpose.POOLS].uniform(first, count, k * (d + 1) + 1)
        wild = drawn[..., -1, None, None] > 0.98
        contexts = (drawn[..., : k * d].unflatten(-1, (k, d)) - 0.3) * (wild * 1e9).clamp(min=1)
        groups = (drawn[..., k * d : -1] > 0.6).long()
        expected = contexts @ torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
        noise = self.streams[Purpose.REWARDS].normal(first, count, k)
        return Pools(contexts, groups, expected + noise, expected, expected.sigmoid())


@pytest.mark.parametrize("name", ["greedy", "oful", "fair_greedy"])
@pytest.mark.parametrize("regularization", [1e-3, 10.0])
def test_blocks_company_and_interruptions_change_nothing(name: str, regularization: float) -> None:
    rounds, parts = 270, config(name, regularization)

    def engine(replicas: Any, **options: Any) -> Engine:
        policy = build(parts)
        assert isinstance(policy, Policy)
        return Engine(policy, Wild(), rounds=rounds, seed=0, replicas=replicas, **options)

    def actions(played: Any) -> torch.Tensor:
        return torch.cat([piece.actions for piece in played], 1)

    whole = actions(engine(range(3)).play())
    assert torch.equal(actions(engine(range(3), at_once=1).play()), whole)
    for replica in range(3):
        assert torch.equal(actions(engine([replica]).play()), whole[replica : replica + 1])
    first, second = engine(range(3)), engine(range(3))
    head = [next(first.play())]
    second.load_state(first.state())
    assert torch.equal(actions([*head, *second.play()]), whole)
    pools = worlds.pools_of(Wild(), rounds, 0)
    agent = Agent.from_config(parts, features=3, groups=2, seed=0)
    assert worlds.play(agent, pools) == whole[0].tolist()
