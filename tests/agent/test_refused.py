"""What agents refuse: each error says what came and what is valid, and nothing changes.

A case a class of mistake; `make fuzz` tries many more values of each, with twins that meet only
plain ones.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent, FairbanditError, Truth
from tests.agent import worlds

X = np.arange(6.0).reshape(3, 2)
NAN = float("nan")


class Shy:
    """Cannot be hashed, shown or made an array."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError


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


def refused(agent: Agent, message: str, call: Any) -> None:
    """Makes a call that is an error and changes nothing."""
    before = worlds.held(agent)
    with pytest.raises(FairbanditError, match=message):
        call()
    assert worlds.held(agent) == before


@pytest.mark.parametrize(
    ("contexts", "groups", "message"),
    [
        (np.zeros((3, 5)), "aab", r"expected \(K, 2\), .* got shape \(3, 5\)"),
        ([[1, 2], [3]], ["a", "b"], "contexts: expected real numbers, in rows of one length"),
        ([["1", "2"]], ["a"], "contexts: expected real numbers, .* got list"),
        ([[0, 1], [NAN, 2]], ["a", "b"], r"contexts: expected numbers .* got nan at \[1, 0\]"),
        ([[1e200, 0]], ["a"], r"from 1e-100 to 1e\+100 in size, got 1e\+200"),
        ([[1e-150, 0]], ["a"], r"from 1e-100 to 1e\+100 in size, got 1e-150"),
        (np.ma.array(X, mask=X == 3), ["a"] * 3, "contexts: expected .* masked entries"),
        (Shy(), ["a"], "contexts: expected real numbers, in rows of one length"),
        (X, ["a", "b"], "groups: expected 3 labels, one a candidate; got 2"),
        (X, "abc", "groups: expected an array or a list, got str 'abc'"),
        (X, ["a", "new", Shy()], r"one hashable label .* one that cannot be shown .*\(Shy\)"),
        (X, ["a", "new", (1, (2, np.float32(NAN)))], "labels equal to themselves, got nan"),
    ],
)
def test_pools(agent: Agent, contexts: Any, groups: Any, message: str) -> None:
    refused(agent, message, lambda: agent.act(contexts, groups))
    refused(agent, message, lambda: agent.explain(contexts, groups))


@pytest.mark.parametrize(
    ("reward", "ticket", "message"),
    [
        (NAN, 3, "reward: expected numbers that are 0 or from .* got nan"),
        ([1.0, 2.0], 3, r"reward: expected one number, got an array of shape \(2,\)"),
        (1.0, 1, "round 1 waits for no reward: it came already.* those that wait are 3, 6"),
        (1.0, None, "round 8 waits for no reward: it came already"),
        (1.0, 9, "no decision has ticket 9; those that wait for a reward are 3, 6"),
        (1.0, Shy(), "no decision has ticket one that cannot be shown"),
    ],
)
def test_rewards(agent: Agent, reward: Any, ticket: Any, message: str) -> None:
    refused(agent, message, lambda: agent.update(reward, ticket))


def test_rewards_twice_or_of_nothing(agent: Agent) -> None:
    """Only `update` has a default."""
    fresh = Agent.from_config("greedy", features=2)
    refused(fresh, "no decision was made yet", lambda: fresh.update(1.0))
    refused(fresh, "no decision has ticket 1; .* are none", lambda: fresh.drop(1))
    refused(agent, "no decision has ticket None", lambda: agent.drop(None))  # type: ignore[arg-type]
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
        ({"contexts": [X, X[:, :1]]}, r"contexts\[1\]: .* got shape \(3, 1\)"),
        ({"contexts": np.zeros((1, 3, 2))}, "groups: expected 1 pools, got 2"),
        ({"groups": [list("abc"), list("ab")]}, "groups: expected 3 labels in pool 1, got 2"),
        ({"groups": [["new", "b", NAN]] * 2}, "labels equal to themselves"),
        ({"actions": [0, 3]}, "actions: expected places from 0 to 2 in pool 1, got 3"),
        ({"actions": [0.0, 1.0]}, "actions: expected whole numbers, got float64"),
        ({"rewards": [1.0, NAN]}, r"rewards: expected numbers .* got nan at \[1\]"),
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


TRUTH = Truth(torch.ones(3), lambda groups, values, rounds: torch.ones_like(values))


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ("fairest", {}, "unknown policy 'fairest'; the named ones are epsilon_greedy, "),
        (3, {}, "expected a policy's name or a mapping, got 3"),
        ({"name": "simulation"}, {}, "expected a policy, got an environment"),
        ("greedy", {"features": 10**9}, "at most 1,000,000, got 1000000000"),
        ("greedy", {"features": 10**6}, "does not fit into memory"),
        ("greedy", {"seed": -1}, "seed: expected a whole number of at least 0, got -1"),
        ("greedy", {"patience": 0.5}, "patience: expected a whole number of at least 0, got 0.5"),
        ("greedy", {"refresh": 1e30}, r"above 1 and at most 1e\+09, got 1e\+30"),
        ("greedy", {"groups": "ab"}, "groups: expected a list of labels, or a number G"),
        ("greedy", {"groups": ["a", "a"]}, "expected labels that differ"),
        ("greedy", {"groups": [("a", NAN)]}, "labels equal to themselves"),
        ("greedy", {"exploration": -1}, "exploration: expected at least 0, got -1"),
        ("greedy", {"truth": 3}, "truth: expected a fairbandit.Truth"),
        ("optimal", {}, "estimator 'oracle' needs a truth"),
        ("optimal", {"truth": TRUTH}, r"truth.theta: expected shape \(2,\), .* got \(3,\)"),
    ],
)
def test_agents(config: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        Agent.from_config(config, **{"features": 2, **options})


def test_what_is_no_policy() -> None:
    with pytest.raises(FairbanditError, match=r"expected a fairbandit.Policy, got 'oful'"):
        Agent("oful", features=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        *[(kind(3), 3.0) for kind in (np.int8, np.uint64, np.float16, np.longdouble, Fraction)],
        *[(kind(3.0), 3.0) for kind in (Decimal, np.array, torch.tensor, np.ma.array)],
        (np.array([3.0]), 3.0),
        (np.array(Fraction(3), dtype=object), 3.0),
        (torch.tensor(3.0, dtype=torch.bfloat16, requires_grad=True), 3.0),
        (torch.complex(torch.tensor(1.0), torch.tensor(-3.0)).conj().imag, 3.0),
        (-(10**99), -1e99),
        (Decimal("1e40"), 1e40),
    ],
)
def test_numbers_of_every_kind(odd: Any, plain: float) -> None:
    """As a reward, and exact ones as entries of a context, as a table of mixed columns has them."""
    agent, twin = (Agent.from_config("greedy", features=2) for _ in range(2))
    exact = np.array([[1, Fraction(1, 2)], [Decimal("2.5"), np.int8(3)]], dtype=object)
    for one, pool, reward in ((agent, exact, odd), (twin, [[1.0, 0.5], [2.5, 3.0]], plain)):
        one.act(pool, ["a", "b"])
        one.update(reward)
    assert worlds.held(agent) == worlds.held(twin)


def test_labels_within_others_are_plain() -> None:
    agent = Agent.from_config("greedy", features=2)
    agent.act(X, [(torch.tensor(1), (np.int8(2),)), frozenset({1}), np.ma.array([7, 8])[0]])
    agent.act(X, [(1, (2,)), frozenset({True}), 7.0])
    assert agent.groups == ((1, (2,)), frozenset({1}), 7)
