"""What agents refuse: each error says what came and what is valid, and nothing changes."""

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent, FairbanditError, Oracle
from tests.agent import worlds

X = np.arange(6.0).reshape(3, 2)
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def agent() -> Agent:
    made = Agent.from_config(
        {"split": "halves", "estimator": "ridge", "rank": "recent_cdf"}, features=2, groups=["a"]
    )
    for t in range(8):
        made.act(X + t, ["a", "b", "c"])
        if t not in (2, 5):
            made.update(float(t))
    return made


@pytest.mark.parametrize(
    ("contexts", "groups", "message"),
    [
        (np.zeros((3, 5)), "aab", r"expected \(K, 2\), a row of 2 features .* got shape \(3, 5\)"),
        (np.zeros((0, 2)), [], r"at least one candidate; got shape \(0, 2\)"),
        (np.zeros(2), ["a"], r"got shape \(2,\)"),
        (np.zeros((1, 3, 2)), ["a"], r"got shape \(1, 3, 2\)"),
        ([[1, 2], [3]], ["a", "b"], "contexts: expected numbers in rows of one length"),
        ([["1", "2"]], ["a"], "contexts: expected real numbers, got list"),
        (X + 1j, ["a"] * 3, "contexts: expected real numbers, got ndarray"),
        (None, ["a"], "contexts: expected real numbers, got NoneType None"),
        ([[0, 1], [NAN, 2]], ["a", "b"], r"expected finite numbers .* got nan at \[1, 0\]"),
        (torch.tensor([[0.0, INF]]), ["a"], r"got inf at \[0, 1\]"),
        ([[1e200, 0]], ["a"], r"at most 1e\+100 in size, got 1e\+200"),
        (X, ["a", "b"], "groups: expected 3 labels, one a candidate; got 2"),
        (X, ["a"] * 4, "got 4"),
        (X, "abc", "groups: expected an array or a list, got str 'abc'"),
        (X, 3, "groups: expected an array or a list, got int 3"),
        (X, {"a", "b", "c"}, "groups: expected an array or a list, got set"),
        (X, np.array(3), "expected an array or a list, got ndarray"),
        (X, [["a"], ["b"], ["c"]], r"hashable label for each candidate, got \['a'\] \(list\)"),
        (X, np.zeros((3, 2)), "one hashable label"),
        (X, ["a", "new", torch.zeros(2)], "one hashable label"),
        (X, ["a", "new", NAN], "expected labels equal to themselves, got nan"),
    ],
)
def test_pools(agent: Agent, contexts: Any, groups: Any, message: str) -> None:
    refused(agent, message, lambda: agent.act(contexts, groups))


@pytest.mark.parametrize(
    ("reward", "ticket", "message"),
    [
        (NAN, 3, "reward: expected finite numbers of at most .* got nan"),
        (-INF, None, "got -inf"),
        ("1.5", 3, "reward: expected real numbers, got str '1.5'"),
        (None, 3, "reward: expected real numbers, got NoneType"),
        ([1.0, 2.0], 3, r"reward: expected one number, got an array of shape \(2,\)"),
        (1.0, 1, "round 1 waits for no reward: it came already.* those that wait are 3, 6"),
        (1.0, None, "round 8 waits for no reward: it came already"),
        (1.0, 9, "no decision has ticket 9; those that wait for a reward are 3, 6"),
        (1.0, 0, "no decision has ticket 0"),
        (1.0, -1, "no decision has ticket -1"),
        (1.0, "3", "no decision has ticket '3'"),
        (1.0, 3.0, "no decision has ticket 3.0"),
    ],
)
def test_rewards(agent: Agent, reward: Any, ticket: Any, message: str) -> None:
    refused(agent, message, lambda: agent.update(reward, ticket))


def test_rewards_twice_or_of_nothing(agent: Agent) -> None:
    fresh = Agent.from_config("greedy", features=2)
    refused(fresh, "no decision was made yet", lambda: fresh.update(1.0))
    refused(fresh, "no decision has ticket 1; .* are none", lambda: fresh.drop(1))
    agent.update(1.0, 3)
    refused(agent, "round 3 waits for no reward", lambda: agent.update(1.0, 3))
    agent.drop(6)
    refused(agent, "round 6 waits for no reward.* wait are none", lambda: agent.update(1.0, 6))


LOG = {
    "contexts": np.zeros((2, 3, 2)),
    "groups": [list("abc")] * 2,
    "actions": [0, 2],
    "rewards": [1, 2],
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"contexts": np.zeros((2, 3, 4))}, r"expected \(n, K, 2\), .* got shape \(2, 3, 4\)"),
        ({"contexts": np.zeros((3, 2))}, r"got shape \(3, 2\)"),
        ({"contexts": [X, X[:, :1]]}, r"contexts\[1\]: .* got shape \(3, 1\)"),
        ({"contexts": [X, X[:0]]}, r"K at least 1; got shape \(0, 2\)"),
        ({"contexts": [X, X * NAN]}, r"contexts\[1\]: expected finite numbers .* at \[0, 0\]"),
        ({"contexts": np.full((2, 3, 2), INF)}, "contexts: expected finite numbers"),
        ({"contexts": np.zeros((1, 3, 2))}, "groups: expected 1 pools, got 2"),
        ({"groups": [list("abc"), list("ab")]}, "groups: expected 3 labels in pool 1, got 2"),
        ({"groups": np.zeros((2, 4))}, "groups: expected 3 labels in pool 0, got 4"),
        ({"groups": list("ab")}, r"groups\[0\]: expected an array or a list, got str 'a'"),
        ({"groups": [["new", "b", NAN]] * 2}, "labels equal to themselves"),
        ({"groups": [["new", "b", {}]] * 2}, "one hashable label"),
        ({"actions": [0, 3]}, "actions: expected places from 0 to 2 in pool 1, got 3"),
        ({"actions": [-1, 0]}, "places from 0 to 2 in pool 0, got -1"),
        ({"actions": [0.0, 1.0]}, "actions: expected whole numbers, got float64"),
        (
            {"actions": [0]},
            r"actions: expected one for each of the 2 pools, shape \(2,\); got \(1,\)",
        ),
        ({"rewards": [1.0, NAN]}, r"rewards: expected finite numbers .* got nan at \[1\]"),
        ({"rewards": [[1.0, 2.0]]}, r"rewards: expected one for each .* got \(1, 2\)"),
    ],
)
def test_logs(agent: Agent, changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {**LOG, **changed}
    refused(agent, message, lambda: agent.observe(**given))


def test_an_empty_log_changes_nothing(agent: Agent) -> None:
    before = worlds.held(agent)
    agent.observe([], [], [], [])
    agent.observe(np.zeros((0, 3, 2)), np.zeros((0, 3)), [], [])
    assert worlds.held(agent) == before


ORACLE = Oracle(torch.ones(3), lambda groups, values: torch.ones_like(values))


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ("fairest", {}, "unknown policy 'fairest'; the named ones are fair_greedy, "),
        (3, {}, "expected a policy's name or a mapping, got 3"),
        ({"name": "simulation"}, {}, "expected a policy, got an environment"),
        ({"split": "halves"}, {}, "a policy is made of"),
        ("greedy", {"features": 0}, "features: expected a whole number of at least 1, got 0"),
        ("greedy", {"features": 2.5}, "features: expected a whole number"),
        ("greedy", {"seed": -1}, "seed: expected a whole number of at least 0, got -1"),
        ("greedy", {"patience": -2}, "patience: expected a whole number"),
        ("greedy", {"refresh": 1}, "refresh: expected a factor above 1 and at most 1e.09, got 1"),
        ("greedy", {"refresh": NAN}, "refresh: expected finite"),
        ("greedy", {"groups": "ab"}, "groups: expected a list of labels, or a number G"),
        ("greedy", {"groups": ["a", "a"]}, "expected labels that differ"),
        ("greedy", {"groups": [[1]]}, "one hashable label"),
        ("optimal", {}, "estimator 'oracle' needs an oracle"),
        ("optimal", {"oracle": ORACLE}, r"oracle.theta: expected shape \(2,\), .* got \(3,\)"),
    ],
)
def test_agents(config: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        Agent.from_config(config, **{"features": 2, **options})


def test_a_ridge_that_sums_would_break() -> None:
    """Contexts so large that no factor of V exists in double precision, beside ordinary ones."""
    agent = Agent.from_config("greedy", features=2, groups=["a"])
    agent.act([[1e30, 1e30]], ["a"])
    agent.update(1.0)
    for t in range(2, 5):
        assert agent.act([[1, 2], [3, 4]], ["a", "a"]).ticket == t
        agent.update(1.0)


def refused(agent: Agent, message: str, call: Any, all_of_it: bool = True) -> None:
    """Makes a call that is an error and changes nothing."""
    before = worlds.held(agent)
    with pytest.raises(FairbanditError, match=message):
        call()
    if all_of_it:
        assert worlds.held(agent) == before
