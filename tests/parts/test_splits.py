"""Splits, and reward models that change seldom: against loops, in simulation as online."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import Agent, FairbanditError, Policy, build
from fairbandit.parts import Full, Halves, Problem, Split
from fairbandit.parts.splits import MOST, ROUNDS
from fairbandit.streams import Streams
from tests import support
from tests.agent import worlds

SPLITS: dict[str, type[Split]] = {"halves": Halves, "full": Full}


def grid(factor: float, most: int) -> list[int]:
    """0, 1, ⌈f⌉, ⌈f⌈f⌉⌉, …, each at least one more than the one before, to the first above most."""
    numbers = [0, 1]
    while numbers[-1] <= most:
        numbers.append(max(numbers[-1] + 1, math.ceil(factor * numbers[-1])))
    return numbers


def bound(split: Split) -> Split:
    split.bind(Problem(1, 1, Streams(0, [0])))
    return split


@pytest.mark.parametrize("name", SPLITS)
@settings(max_examples=25, deadline=None)
@given(
    factor=st.one_of(st.none(), st.floats(1, 4, exclude_min=True), st.just(MOST)),
    first=st.integers(1, 3 * ROUNDS),
)
def test_the_division(name: str, factor: float | None, first: int) -> None:
    """Asked for round by round, in blocks, and wherever its look-ups end."""
    split = bound(SPLITS[name](refresh=factor))
    last = first + 300
    t = torch.arange(first, last + 1)
    divisions = [split.divide(t), split.block(first, last)]
    numbers = grid(factor, last) if factor else list(range(last + 1))
    for i, now in enumerate(range(first, last + 1)):
        half = (now - 1) // 2
        past, start = (half, half) if name == "halves" else (now - 1, 0)
        known = max(number for number in numbers if number <= past)
        for division in divisions:
            assert [int(field[i]) for field in division] == [known, start, now - 1]
        assert (split.n_train(now), split.start(now)) == (known, start)


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(1, 4, exclude_min=True))
def test_the_number_that_includes_a_round(factor: float) -> None:
    split, numbers = bound(Full(refresh=factor)), grid(factor, 200)
    for t in range(200):
        assert split.refreshed(t) == min(number for number in numbers if number >= t)
    assert bound(Full()).refreshed(17) == 17


def policy(split: object, estimator: str, rank: str) -> Policy:
    made = build({"split": split, "estimator": estimator, "rank": rank})
    assert isinstance(made, Policy)
    return made


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("refresh", [1.3, 3.0])
@pytest.mark.parametrize(
    ("estimator", "rank"),
    [("ridge", "empirical_cdf"), ("optimistic_ridge", "identity"), ("ridge", "noisy_rewards_cdf")],
)
def test_a_lazy_model_in_simulation_and_online(
    split: str, refresh: float, estimator: str, rank: str
) -> None:
    """Where outcomes are taken in as they come, and where a rank needs them: equal decisions."""
    world, rounds = worlds.Coarse(), 70
    lazy = {"name": split, "refresh": refresh}
    played = [
        support.actions(policy(lazy, estimator, rank), world, rounds, 2, seed=4, at_once=at_once)
        for at_once in (256, 1)
    ]
    assert torch.equal(*played)
    pools = worlds.pools_of(world, rounds, 4)
    given = {"split": split, "estimator": estimator, "rank": rank}
    agents = [
        worlds.agent_for(world, given, 4, refresh=refresh),
        worlds.agent_for(world, {**given, "split": lazy}, 4),
    ]
    for agent in agents:
        assert worlds.play(agent, pools) == played[0][0].tolist()


def test_two_refreshes_that_differ() -> None:
    made = policy({"name": "full", "refresh": 1.5}, "ridge", "identity")
    with pytest.raises(
        FairbanditError,
        match=r"refresh: the policy's split has 1.5 and the agent was given 2; give one of them",
    ):
        Agent(made, features=2, refresh=2.0)
    assert made.split.refresh == 1.5
    Agent(made, features=2, refresh=1.5)
