"""Rewards that come late, in any order or never, and inputs of every kind, mixed at random."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import Agent, FairbanditError
from tests.agent import worlds


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    split=st.sampled_from(["halves", "full"]),
    estimator=st.sampled_from(["ridge", "optimistic_ridge"]),
    rank=st.sampled_from(["empirical_cdf", "recent_cdf", "noisy_rewards_cdf", "identity"]),
    refresh=st.sampled_from([None, 1.4]),
)
def test_any_order_gives_the_model_that_the_data_in_order_gives(
    seed: int, split: str, estimator: str, rank: str, refresh: float | None
) -> None:
    rounds = 40
    past, future = worlds.spans(worlds.stories(seed, rounds + 10, delay=15), rounds)
    config = {"split": split, "estimator": estimator, "rank": rank, "refresh": refresh}
    late, in_order = (Agent.from_config(config, features=3, seed=seed) for _ in range(2))
    order = np.random.default_rng(seed)
    picked = worlds.live(late, past, order)
    for ticket in order.permutation(late.pending).tolist():
        late.update(past.rewards[ticket - 1][picked[ticket - 1]], ticket)
    assert late.pending == ()
    rewards = [float(r[a]) for r, a in zip(past.rewards, picked, strict=True)]
    with patch("fairbandit.agent.rounds.ROUNDS_TOGETHER", 16):  # in several pieces
        in_order.observe(past.contexts, past.labels, picked, rewards)
    assert in_order.groups == late.groups
    for x, labels, reward in zip(future.contexts, future.labels, future.rewards, strict=True):
        one, other = (agent.act(x, labels) for agent in (late, in_order))
        assert one == other
        for agent in (late, in_order):
            agent.update(reward[one.candidate])
        mine, theirs = map(worlds.scores, (late, in_order))
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)


def test_what_is_handed_in_is_not_kept() -> None:
    """Buffers may be written over after each call."""
    one, other = (Agent.from_config("fair_greedy", features=2, groups=2) for _ in range(2))
    draws, buffer = np.random.default_rng(0), np.zeros((3, 2))
    for _ in range(20):
        x, reward = draws.normal(size=(3, 2)), draws.normal()
        buffer[:] = x
        assert one.act(buffer, [0, 1, 0]) == other.act(x, [0, 1, 0])
        buffer[:] = np.nan
        one.update(reward)
        other.update(reward)


@pytest.mark.parametrize("patience", [None, 150])
def test_many_decisions_wait(patience: int | None) -> None:
    """Like in a list from which rewarded and too old decisions are removed."""
    agent, waiting = Agent.from_config("uniform", features=1, patience=patience), list[int]()
    draws = np.random.default_rng(0)
    for ticket in range(1, 401):
        agent.act([[1.0]], ["a"])
        waiting.append(ticket)
        if draws.random() < 0.3:
            agent.update(1.0, waiting.pop(int(draws.integers(len(waiting)))))
        waiting = [t for t in waiting if patience is None or t >= ticket - patience]
        assert list(agent.pending) == waiting


def test_patience_and_giving_up() -> None:
    agent = Agent.from_config("greedy", features=1, patience=3)
    for _ in range(10):
        agent.act([[1.0]], ["a"])
    assert list(agent.pending) == [7, 8, 9, 10]
    agent.drop(8)
    agent.update(1.0, 7)
    agent.observe(np.ones((1, 1, 1)), [["a"]], [0], [1.0])
    assert list(agent.pending) == [9, 10]
    with pytest.raises(FairbanditError, match=r"ticket 8 does not wait .*; waiting tickets: 9, 10"):
        agent.update(1.0, 8)
