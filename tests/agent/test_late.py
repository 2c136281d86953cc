"""Rewards that come late, in any order or never, and inputs of every kind, mixed at random."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import Agent, FairbanditError
from tests.agent import worlds

FEW = settings(max_examples=8, deadline=None)


@settings(FEW, max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    split=st.sampled_from(["halves", "full"]),
    estimator=st.sampled_from(["ridge", "optimistic_ridge"]),
    rank=st.sampled_from(["recent_cdf", "noisy_rewards_cdf", "identity"]),
    refresh=st.sampled_from([None, 1.4]),
)
def test_any_order_gives_the_model_that_the_data_in_order_gives(
    seed: int, split: str, estimator: str, rank: str, refresh: float | None
) -> None:
    rounds = 40
    past, future = worlds.spans(worlds.stories(seed, rounds + 10, delay=15), rounds)
    config = {"split": split, "estimator": estimator, "rank": rank}
    late, in_order = (
        Agent.from_config(config, features=3, seed=seed, refresh=refresh) for _ in range(2)
    )
    order = np.random.default_rng(seed)
    picked = worlds.live(late, past, order)
    for ticket in order.permutation(late.pending).tolist():
        late.update(past.rewards[ticket - 1][picked[ticket - 1]], ticket)
    assert late.pending == ()
    rewards = [float(r[a]) for r, a in zip(past.rewards, picked, strict=True)]
    in_order.observe(past.contexts, past.labels, picked, rewards)
    for x, labels, reward in zip(future.contexts, future.labels, future.rewards, strict=True):
        one, other = (agent.act(x, labels) for agent in (late, in_order))
        assert one == other
        for agent in (late, in_order):
            agent.update(reward[one.candidate])
        mine, theirs = map(worlds.scores, (late, in_order))
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)


def as_any(x: np.ndarray, how: int) -> Any:
    """An array of small integers as one of the types that agents take."""
    kinds: list[Callable[[Any], Any]] = [
        np.asarray,
        lambda one: one.astype(np.float32),
        lambda one: one.astype(np.int8),
        lambda one: np.asfortranarray(one)[::1],
        lambda one: one.tolist(),
        torch.from_numpy,
        lambda one: torch.from_numpy(one).to(torch.bfloat16),
        lambda one: torch.from_numpy(one).float().requires_grad_(),
        lambda one: list(map(tuple, one.tolist())) if one.ndim == 2 else tuple(one.tolist()),
    ]
    return kinds[how % len(kinds)](x)


def labels_as_any(codes: np.ndarray, how: int) -> Any:
    """Codes as labels that are equal to them."""
    kinds: list[Callable[[Any], Any]] = [
        np.asarray,
        lambda one: one.tolist(),
        torch.from_numpy,
        lambda one: one.astype(np.float32),
        lambda one: list(one),  # NumPy's scalars
        lambda one: list(torch.from_numpy(one)),  # tensors of one number
        lambda one: one.astype(object),
        lambda one: tuple(map(float, one)),
    ]
    return kinds[how % len(kinds)](codes)


@FEW
@given(seed=st.integers(0, 10**6))
def test_inputs_of_every_kind_decide_alike(seed: int) -> None:
    draws = np.random.default_rng(seed)
    plain, mixed = (Agent.from_config("fair_greedy", features=4, seed=seed) for _ in range(2))
    logs: list[list[Any]] = [[], [], [], []]
    for _ in range(30):
        k = int(draws.integers(1, 6))
        x = draws.integers(-3, 4, (k, 4)).astype(float)
        codes, reward = draws.integers(0, 3, k), float(draws.integers(-5, 6))
        how = draws.integers(0, 1000, 3).tolist()
        decision = plain.act(x, codes)
        assert mixed.act(as_any(x, how[0]), labels_as_any(codes, how[1])) == decision
        plain.update(reward)
        mixed.update(as_any(np.array([reward]), how[2] % 4 + 5 * (how[2] % 2)), decision.ticket)
        for log, one in zip(logs, (x, codes, decision.candidate, reward), strict=True):
            log.append(one)
    assert worlds.held(plain) == worlds.held(mixed)
    seen = [Agent.from_config("fair_greedy", features=4, seed=seed) for _ in range(2)]
    seen[0].observe(*logs)
    seen[1].observe(
        [as_any(x, int(draws.integers(9))) for x in logs[0]],
        [labels_as_any(codes, int(draws.integers(8))) for codes in logs[1]],
        as_any(np.array(logs[2]), 2),
        as_any(np.array(logs[3]), int(draws.integers(9))),
    )
    assert worlds.held(seen[0]) == worlds.held(seen[1])


def test_an_array_of_labels_is_as_a_list_of_them() -> None:
    draws = np.random.default_rng(0)
    x, places, rewards = (
        draws.normal(size=(60, 3, 2)),
        draws.integers(0, 3, 60),
        draws.normal(size=60),
    )
    for labels in (
        draws.choice(["north", "south", "east"], (60, 3)),
        draws.integers(-1, 3, (60, 3)),
        draws.integers(0, 3, (60, 3)) / 2,
        draws.choice([b"x", b"yy"], (60, 3)),
        draws.random((60, 3)) < 0.5,
    ):
        one, other = (Agent.from_config("fair_greedy", features=2) for _ in range(2))
        one.observe(x, labels, places, rewards)
        other.observe(x, labels.tolist(), places, rewards)
        assert one.groups == other.groups
        assert one.groups[0] == labels[0, 0]
        assert worlds.held(one) == worlds.held(other)


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


def test_patience_and_giving_up() -> None:
    agent = Agent.from_config("greedy", features=1, patience=3)
    for _ in range(10):
        agent.act([[1.0]], ["a"])
    assert list(agent.pending) == [7, 8, 9, 10]
    agent.drop(8)
    agent.update(1.0, 7)
    agent.observe(np.ones((1, 1, 1)), [["a"]], [0], [1.0])
    assert list(agent.pending) == [9, 10]
    with pytest.raises(FairbanditError, match=r"round 8 waits for no reward.* that wait are 9, 10"):
        agent.update(1.0, 8)
