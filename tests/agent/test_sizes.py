"""Contexts and rewards of any accepted size: an agent goes on deciding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairbandit import Agent, FairbanditError
from fairbandit.agent.inputs import LARGEST, SMALLEST
from tests.agent import worlds

ROUNDS = 30
"""How many rounds are lived through, the first ten of them ordinary."""

SIZES = [[1e4], [1.0, 1e6], [1e9], [1.0, 1e9], [1e50], [SMALLEST, 1e-50, 1.0, 1e50, LARGEST]]
"""What later contexts and rewards are multiplied by, one at random."""

SKLEARN = {"split": "full", "rank": "empirical_cdf", "refresh": 1.5}


@settings(max_examples=10)
@given(
    name=st.sampled_from(["greedy", "fair_greedy", "oful", "lin_ts", "minimum_pull"]),
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 3, 17]),
    sizes=st.sampled_from(SIZES),
    refresh=st.sampled_from([None, 1.1, 4.0]),
)
@example(name="fair_greedy", seed=159, d=3, sizes=[1e9], refresh=None)
@example(name="fair_greedy", seed=45, d=3, sizes=[1e9], refresh=None)
@example(name="greedy", seed=1, d=3, sizes=[1.0, 1e9], refresh=1.1)
def test_no_size_stops_an_agent(
    name: str, seed: int, d: int, sizes: list[float], refresh: float | None
) -> None:
    """A reward that the model cannot take in beside the others is refused when it comes."""
    draws, config = np.random.default_rng(seed), {"name": name, "refresh": refresh}
    agent, twin = (Agent.from_config(config, features=d, groups=2, seed=seed) for _ in range(2))
    refused = 0
    for t in range(ROUNDS):
        size = draws.choice([1.0] if t < 10 else sizes, 2)
        x, labels = draws.normal(size=(4, d)).clip(-1, 1) * size[1], draws.integers(0, 2, 4)
        x[np.abs(x) < SMALLEST] = 0
        decision = agent.act(x, labels)
        assert twin.act(x, labels) == decision
        reward = max(float(draws.uniform() * size[0]), SMALLEST)
        try:
            agent.update(reward)
        except FairbanditError as error:
            assert "smaller scale or a larger regularization" in str(error)  # noqa: PT017
            for one in (agent, twin):
                one.drop(decision.ticket)
            refused += 1
        else:
            twin.update(reward)
        assert worlds.held(agent) == worlds.held(twin)
    assert not refused or max(sizes) > 1e6


@pytest.mark.parametrize(
    ("config", "size", "at", "late"),
    [
        ("order_greedy", 1e50, 30, 4),
        ({"split": "halves", "estimator": "pairwise_probit", "rank": "empirical_cdf"}, 1e9, 30, 0),
        ("forgetting_greedy", 1e7, 0, 4),
        ("forgetting_greedy", 1e50, 30, 4),
        ({**SKLEARN, "estimator": {"name": "sklearn", "model": "sgd"}}, 1e9, 30, 0),
    ],
)
def test_one_large_context(config: Any, size: float, at: int, late: int, tmp_path: Path) -> None:
    """Its reward is refused if a later model could not be made; all else goes on, also reloaded."""
    draws, waiting, refused = np.random.default_rng(0), list[tuple[float, int]](), []
    agent = Agent.from_config(config, features=3, groups=2)
    for t in range(60):
        x, labels = draws.normal(size=(4, 3)), draws.integers(0, 2, 4)
        if t == at:
            x, labels = x[:1] * size, labels[:1]
        if t == 40:
            agent.save(tmp_path / "agent")
            agent = Agent.load(tmp_path / "agent")
        decision = agent.act(x, labels)
        waiting.append((float(x[decision.candidate, 0]), decision.ticket))
        if len(waiting) > late:
            reward, ticket = waiting.pop(0)
            try:
                agent.update(reward, ticket)
            except FairbanditError as error:
                assert "smaller scale or a larger regularization" in str(error)  # noqa: PT017
                refused.append(ticket)
    assert refused in ([], [at + 1])


def test_a_forest_takes_contexts_beyond_single_precision() -> None:
    forest = {"name": "sklearn", "model": "random_forest", "params": {"n_estimators": 2}}
    agent = Agent.from_config({**SKLEARN, "estimator": forest}, features=3, groups=2)
    for t in range(8):
        agent.act(np.ones((4, 3)) * (1e50 if t == 0 else t), [0, 1, 0, 1])
        agent.update(float(t))
