"""What agents refuse: each error names what is wrong, and nothing changes.

A case a class of mistake; `make fuzz` tries many more values of each, with twins that meet only
plain ones.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent, FairbanditError
from tests.agent import worlds

X, NAN = np.arange(6.0).reshape(3, 2), float("nan")


class Shy:
    """Cannot be hashed, shown or made an array."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError


@pytest.fixture(scope="module")
def agent() -> Agent:
    """One that waits for the rewards of rounds 3 and 6 of 8."""
    made = Agent.from_config(
        {"split": "halves", "estimator": "ridge", "rank": "recent_cdf"}, features=2, groups=["a"]
    )
    for t in range(8):
        made.act(X + t, ["a", "b", "c"])
        if t not in (2, 5):
            made.update(float(t))
    return made


POOLS: list[tuple[Any, Any, str]] = [
    (np.zeros((3, 5)), "aab", r"contexts: .* got shape \(3, 5\)"),
    ([[1, 2], [3]], ["a", "b"], "contexts: expected real numbers, in rows of one length"),
    ([[0, 1], [NAN, 2]], ["a", "b"], r"contexts: .* got nan at \[1, 0\]"),
    ([[1e200, 0]], ["a"], r"contexts: .* got 1e\+200"),
    (np.ma.array(X, mask=X == 3), ["a"] * 3, "contexts: .* masked entries"),
    (Shy(), ["a"], "contexts: expected real numbers"),
    (X, ["a", "b"], "groups: expected 3 labels"),
    (X, "abc", r"groups: expected labels, as in `pool\[\"ethnicity\"\]`"),
    (X, ["a", "new", Shy()], "groups: .* hashable .* 'Shy'"),
    (X, ["a", "new", (1, (2, Decimal("nan")))], "groups: .* equal to themselves; got .*NaN"),
]

LOG: dict[str, Any] = {
    "contexts": np.zeros((2, 3, 2)),
    "groups": [list("abc")] * 2,
    "actions": [0, 2],
    "rewards": [1, 2],
}

LOGS: list[tuple[str, Any, str]] = [
    ("contexts", np.zeros((2, 3, 4)), r"pool 0: contexts: .* got shape \(3, 4\)"),
    ("contexts", [X, X[:, :1]], r"pool 1: contexts: .* got shape \(3, 1\)"),
    ("groups", [list("abc"), list("ab")], r"pool 1: groups: expected 3 labels, .*; got 2"),
    ("actions", [0, 3], "an action from 0 to 2 in pool 1; got action 3"),
    ("actions", [-1, 2], "an action from 0 to 2 in pool 0; got action -1"),
    ("rewards", [1.0, NAN], r"rewards: .* got nan at \[1\]"),
]

CALLS: list[tuple[str, tuple[Any, ...], str]] = [
    *(("act", (x, groups), message) for x, groups, message in POOLS),
    *(("explain", (x, groups), message) for x, groups, message in POOLS[-1:]),
    *(("observe", tuple({**LOG, key: odd}.values()), message) for key, odd, message in LOGS),
    ("update", (NAN, 3), r"reward: .* got nan; a ticket .* waits until agent.drop\(3\)"),
    ("update", ("30000", 3), "reward: expected real numbers, .* got str '30000': it has texts"),
    ("update", (1.0, 1), "ticket 1 .* its reward was reported, and was 0; got 1.0"),
    ("update", (1.0, 9), "ticket 9 .* does not exist; waiting tickets: 3, 6"),
    ("update", (1.0, 3.0), r"ticket 3.0 does not wait .* a whole number, such as decision.ticket"),
    ("update", (1.0, "application 7"), "no decision has the id 'application 7'"),
    ("update", (1.0, Shy()), "ticket <cannot be shown"),
    ("drop", (None,), "ticket None does not wait"),
]


@pytest.mark.parametrize(("method", "given", "message"), CALLS)
def test_calls(agent: Agent, method: str, given: tuple[Any, ...], message: str) -> None:
    before = worlds.held(agent)
    with pytest.raises(FairbanditError, match=message):
        getattr(agent, method)(*given)
    assert worlds.held(agent) == before


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ("fairest", {}, "expected a policy, got 'fairest'; a policy is one of debiased, "),
        ("greedy", {"features": 10**9}, "features: .* at most 1,000,000, got 1000000000"),
        ("greedy", {"features": 10**6}, "does not fit into memory"),
        ("greedy", {"seed": -1}, "seed: expected a whole number of at least 0, got -1"),
        ("greedy", {"groups": "ab"}, "groups: expected an array or a list, got str 'ab'"),
        ("greedy", {"groups": ["a", "a"]}, "groups: expected labels that differ"),
        ("optimal", {}, "needs a truth"),
    ],
)
def test_agents(config: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        Agent.from_config(config, **{"features": 2, **options})


@pytest.mark.parametrize(
    "odd",
    [
        *[kind(3) for kind in (np.int8, np.float16, Fraction, Decimal, np.array, np.ma.array)],
        np.array(Fraction(3), dtype=object),
        torch.tensor(3.0, dtype=torch.bfloat16, requires_grad=True),
        torch.complex(torch.tensor(1.0), torch.tensor(-3.0)).conj().imag,
    ],
)
def test_numbers_of_every_kind(odd: Any) -> None:
    """As a reward, and exact ones as entries of a context, as a table of mixed columns has them."""
    agent, twin = (Agent.from_config("greedy", features=2) for _ in range(2))
    exact = np.array([[1, Fraction(1, 2)], [Decimal("2.5"), np.int8(3)]], dtype=object)
    for one, pool, reward in ((agent, exact, odd), (twin, [[1.0, 0.5], [2.5, 3.0]], 3.0)):
        one.act(pool, ["a", "b"])
        one.update(reward)
    assert worlds.held(agent) == worlds.held(twin)
