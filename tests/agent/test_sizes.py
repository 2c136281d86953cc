"""Contexts and rewards of any accepted size: an agent goes on deciding, or refuses and is as before."""

import numpy as np
import pytest

from fairbandit import Agent
from fairbandit.agent.inputs import LARGEST, SMALLEST
from fairbandit.errors import FairbanditError
from tests import support
from tests.agent import worlds


@pytest.mark.parametrize("name", ["greedy", "fair_greedy", "oful"])
@pytest.mark.parametrize("sizes", [[1e4], [1.0, 1e9], [1e50], [1e-50, 1.0], [LARGEST], [SMALLEST]])
def test_an_agent_goes_on_or_says_why_not(name: str, sizes: list[float]) -> None:
    parts = support.policy(name).describe()
    agent = Agent.from_config(parts, features=3, groups=2)
    draws = np.random.default_rng(0)
    for _ in range(20):
        size, before = draws.choice(sizes), worlds.held(agent)
        x = draws.uniform(0.1, 1, (4, 3)) * size if size < LARGEST else np.full((4, 3), size)
        try:
            decision = agent.act(x, [0, 1, 0, 1])
        except FairbanditError as error:
            assert "ridge regression broke down" in str(error)
            assert worlds.held(agent) == before
            return
        before = worlds.held(agent)
        try:
            agent.update(draws.normal(), decision.ticket)
        except FairbanditError as error:
            assert "ridge regression broke down" in str(error)
            assert worlds.held(agent) == before
            return
    assert agent.rounds == 20
    assert agent.pending == ()


@pytest.mark.parametrize("size", [2 * LARGEST, SMALLEST / 2, -SMALLEST / 2, np.nan, np.inf])
def test_numbers_that_have_no_square_are_refused(size: float) -> None:
    agent = Agent.from_config("greedy", features=1)
    with pytest.raises(FairbanditError, match="expected numbers that are 0 or from"):
        agent.act([[size]], ["a"])
    assert agent.rounds == 0
    assert agent.act([[0.0]], ["a"]).propensity == 1.0
