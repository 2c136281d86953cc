"""What agents refuse: each error says what came and what is valid, and nothing changes."""

import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from fairbandit import Agent, FairbanditError, Truth
from tests.agent import worlds

X = np.arange(6.0).reshape(3, 2)
NAN, INF = float("nan"), float("inf")
DAYS = np.array(["2020-01-01", "2020-01-02", "NaT"], dtype="datetime64[D]")
WIDEST = np.finfo(np.longdouble).max
MASKED = np.ma.array([1, 2, 3], mask=[False, False, True])


class Unsure:
    """A label like pandas' NA: nobody knows whether it is equal to itself."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("ambiguous")


class Shy:
    """Cannot be hashed, shown or made an array."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError


class Pair(NamedTuple):
    """A tuple of a type of its own."""

    one: Any
    other: Any


def odd_tensors() -> list[torch.Tensor]:
    """Tensors of three rows that are no plain memory."""
    with warnings.catch_warnings():  # some of them will be no more in a later version
        warnings.simplefilter("ignore")
        x = torch.from_numpy(X).float()
        return [
            x.to_sparse(),
            x.to_sparse_csr(),
            torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
            x.to("meta"),
            torch.nested.nested_tensor(list(x)),
        ]


def deep_label(depth: int) -> tuple[Any, ...]:
    """A tuple in a tuple in a …"""
    label: tuple[Any, ...] = ()
    for _ in range(depth):
        label = (label,)
    return label


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
        (X, ["a", "new", (NAN,)], "labels equal to themselves, got nan"),
        (X, ["a", "new", (1, (2, np.float32(NAN)))], "labels equal to themselves, got nan"),
        (X, ["a", "new", frozenset({NAN})], "labels equal to themselves, got nan"),
        (X, ["a", "new", Pair(1, NAN)], "labels equal to themselves, got nan"),
        (X, ["a", "new", Decimal("NaN")], "labels equal to themselves, got Decimal"),
        (X, ["a", "new", Decimal("sNaN")], "got Decimal"),
        (X, ["a", "new", complex(1, NAN)], "labels equal to themselves"),
        (X, ["a", "new", Unsure()], "labels equal to themselves, got <"),
        (X, ["a", "new", (Unsure(),)], "labels equal to themselves, got <"),
        (X, ["a", "new", torch.tensor(NAN)], "labels equal to themselves, got nan"),
        (X, ["a", "new", DAYS[2]], "labels equal to themselves, got .*NaT"),
        (X, ["a", "new", (DAYS[2],)], "labels equal to themselves, got .*NaT"),
        (X, DAYS, "labels equal to themselves, got NaT"),
        (X, DAYS - DAYS, "labels equal to themselves, got NaT"),
        (X, MASKED, "groups: expected no masked entries, got MaskedArray"),
        (X, MASKED.astype(object), "groups: expected no masked entries"),
        (X, ["a", "new", np.ma.masked], "one hashable label for each candidate, got masked"),
        (X, ["a", "new", (np.ma.masked,)], "one hashable label for each candidate"),
        (X, ["a", "new", Shy()], r"one hashable label .* one that cannot be shown .*\(Shy\)"),
        (X, ["a", "new", deep_label(5000)], "one hashable label"),
        (np.ma.array(X, mask=X == 3), ["a"] * 3, "contexts: expected no masked entries"),
        ([*X[:2], np.ma.array([1.0, 2.0], mask=[False, True])], ["a"] * 3, "no masked entries"),
        ([[1.0, np.ma.masked]], ["a"], "contexts: expected no masked entries"),
        ([[Decimal("NaN"), 1.0]], ["a"], r"got nan at \[0, 0\]"),
        ([[Decimal("sNaN"), 1.0]], ["a"], "contexts: expected finite numbers"),
        ([[10**400, 1]], ["a"], "contexts: expected finite numbers of at most"),
        (np.array([["1", 2]], dtype=object), ["a"], "contexts: expected real numbers"),
        (np.array([[WIDEST, 1]]), ["a"], r"contexts: expected finite numbers .* at \[0, 0\]"),
        (Shy(), ["a"], "contexts: expected numbers in rows of one length"),
        *[(x, ["a"] * 3, "contexts: expected a tensor that is dense") for x in odd_tensors()],
        *[(X, x, "groups: expected a tensor that is dense") for x in odd_tensors()],
    ],
)
def test_pools(agent: Agent, contexts: Any, groups: Any, message: str) -> None:
    refused(agent, message, lambda: agent.act(contexts, groups))
    refused(agent, message, lambda: agent.explain(contexts, groups))


@pytest.mark.parametrize(
    ("reward", "ticket", "message"),
    [
        (NAN, 3, "reward: expected finite numbers of at most .* got nan"),
        (-INF, None, "got -inf"),
        ("1.5", 3, "reward: expected real numbers, got str '1.5'"),
        (None, 3, "reward: expected real numbers, got NoneType"),
        ([1.0, 2.0], 3, r"reward: expected one number, got an array of shape \(2,\)"),
        (10**400, 3, "reward: expected finite numbers of at most"),
        pytest.param(10**5000, 3, "reward: expected finite numbers of at most", id="digits"),
        (Fraction(10**400, 3), 3, "reward: expected finite numbers of at most"),
        (Decimal("1e500"), 3, "reward: expected finite numbers .* got inf"),
        (Decimal("NaN"), 3, "reward: expected finite numbers .* got nan"),
        (WIDEST, 3, "reward: expected finite numbers of at most"),
        (np.ma.masked, 3, "reward: expected no masked entries"),
        (Unsure(), 3, "reward: expected real numbers, got Unsure"),
        (Shy(), 3, "reward: expected numbers"),
        (1 + 0j, 3, "reward: expected real numbers, got complex"),
        *[(x, 3, "reward: expected a tensor that is dense") for x in odd_tensors()],
        pytest.param(1.0, 10**5000, "ticket one that cannot be shown", id="digits of a ticket"),
        (1.0, Shy(), "no decision has ticket one that cannot be shown"),
        (1.0, 1, "round 1 waits for no reward: it came already.* those that wait are 3, 6"),
        (1.0, None, "round 8 waits for no reward: it came already"),
        (1.0, 9, "no decision has ticket 9; those that wait for a reward are 3, 6"),
        (1.0, 0, "no decision has ticket 0"),
        (1.0, -1, "no decision has ticket -1"),
        (1.0, "3", "no decision has ticket '3'"),
        (np.timedelta64(1, "s"), 3, "reward: expected real numbers"),
        (1.0, 3.0, "no decision has ticket 3.0"),
    ],
)
def test_rewards(agent: Agent, reward: Any, ticket: Any, message: str) -> None:
    refused(agent, message, lambda: agent.update(reward, ticket))


def test_a_ticket_to_drop_is_named(agent: Agent) -> None:
    """Only `update` has a default."""
    refused(agent, "no decision has ticket None", lambda: agent.drop(None))  # type: ignore[arg-type]
    agent.act(X, ["a", "a", "b"])
    refused(agent, "no decision has ticket None", lambda: agent.drop(None))  # type: ignore[arg-type]


def test_spans_of_time_are_no_numbers(agent: Agent) -> None:
    """NumPy has them derive from its integers."""
    pool = [[1.0, np.timedelta64(1, "s")], [0.0, 1.0]]
    refused(agent, "contexts: expected real numbers", lambda: agent.act(pool, ["a", "b"]))


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
        ({"groups": np.ma.array([[1, 2, 3]] * 2, mask=np.eye(2, 3) > 0)}, "no masked entries"),
        ({"groups": [MASKED] * 2}, r"groups\[0\]: expected no masked entries"),
        ({"groups": [DAYS] * 2}, r"groups\[0\]: expected labels equal to themselves, got NaT"),
        ({"groups": np.array([DAYS] * 2)}, "groups: expected labels equal to themselves, got NaT"),
        ({"groups": torch.ones(2, 3).to_sparse()}, "groups: expected a tensor that is dense"),
        ({"groups": [[("new", NAN), "b", "c"]] * 2}, "labels equal to themselves"),
        ({"contexts": torch.zeros(2, 3, 2).to_sparse()}, "contexts: expected a tensor that is"),
        ({"contexts": np.ma.array(np.zeros((2, 3, 2)), mask=True)}, "no masked entries"),
        (
            {"rewards": np.ma.array([1.0, 2.0], mask=[False, True])},
            "rewards: expected no masked entries",
        ),
        ({"rewards": [10**400, 1]}, "rewards: expected finite numbers of at most"),
        (
            {"actions": np.ma.array([0, 1], mask=[False, True])},
            "actions: expected no masked entries",
        ),
        ({"actions": [0, 10**30]}, "actions: expected whole numbers"),
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


TRUTH = Truth(torch.ones(3), lambda groups, values: torch.ones_like(values))


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (
            "fairest",
            {},
            "unknown policy 'fairest'; the named ones are epsilon_greedy, ",
        ),
        (3, {}, "expected a policy's name or a mapping, got 3"),
        ({"name": "simulation"}, {}, "expected a policy, got an environment"),
        ({"split": "halves"}, {}, "a policy is made of"),
        ("greedy", {"features": 0}, "features: expected a whole number of at least 1, got 0"),
        ("greedy", {"features": 2.5}, "features: expected a whole number"),
        ("greedy", {"seed": -1}, "seed: expected a whole number of at least 0, got -1"),
        ("greedy", {"patience": -2}, "patience: expected a whole number"),
        ("greedy", {"refresh": 1}, "refresh: expected a factor above 1 and at most 1e.09, got 1"),
        ("greedy", {"refresh": NAN}, "refresh: expected finite"),
        ("greedy", {"groups": np.array(3)}, "groups: expected a list of labels"),
        ("greedy", {"groups": np.timedelta64(3, "s")}, "groups: expected a list of labels"),
        ("greedy", {"seed": np.timedelta64(3, "s")}, "seed: expected a whole number"),
        ("greedy", {"groups": "ab"}, "groups: expected a list of labels, or a number G"),
        ("greedy", {"groups": ["a", "a"]}, "expected labels that differ"),
        ("greedy", {"groups": [[1]]}, "one hashable label"),
        ("greedy", {"refresh": 1e30}, r"above 1 and at most 1e\+09, got 1e\+30"),
        ("greedy", {"exploration": -1}, "exploration: expected at least 0, got -1"),
        ("greedy", {"exploration": NAN}, "exploration: expected finite numbers"),
        ("greedy", {"exploration": INF}, "exploration: expected finite numbers"),
        ("greedy", {"exploration": "1"}, "exploration: expected real numbers"),
        ("greedy", {"features": 10**9}, "features: expected at most 1,000,000, got 1000000000"),
        ("greedy", {"groups": 10**9}, "a number G ≤ 1,000,000 for"),
        ("greedy", {"groups": [("a", NAN)]}, "labels equal to themselves"),
        ("greedy", {"groups": DAYS}, "labels equal to themselves"),
        ("greedy", {"groups": MASKED}, "one hashable label"),
        ("greedy", {"truth": 3}, "truth: expected a fairbandit.Truth"),
        ("greedy", {"patience": 10**5000}, "patience: expected a whole number below"),
        ({"name": ["greedy"], "split": "full"}, {}, "must be a text, got "),
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
    "reward",
    [
        3,
        np.int8(3),
        np.uint64(3),
        Fraction(3),
        Decimal("3.0"),
        np.longdouble("3"),
        np.float16(3),
        np.array(3),
        np.array([3.0]),
        np.ma.array(3.0),
        np.array(Fraction(3), dtype=object),
        torch.tensor(3),
        torch.tensor(3.0, dtype=torch.bfloat16),
        torch.tensor(3.0, requires_grad=True),
        torch.complex(torch.tensor(1.0), torch.tensor(-3.0)).conj().imag,
        [3],
    ],
    ids=lambda one: f"{type(one).__name__}-{getattr(one, 'dtype', '')}",
)
def test_rewards_of_every_kind(reward: Any) -> None:
    agent, twin = (Agent.from_config("greedy", features=2) for _ in range(2))
    for one in (agent, twin):
        one.act(X, ["a"] * 3)
    agent.update(reward)
    twin.update(3.0)
    assert worlds.held(agent) == worlds.held(twin)


@pytest.mark.parametrize("reward", [10**30, -(10**99), Fraction(10**50, 3), Decimal("1e40")])
def test_large_rewards(reward: Any) -> None:
    agent, twin = (Agent.from_config("greedy", features=2) for _ in range(2))
    for one, value in ((agent, reward), (twin, float(reward))):
        one.act(X, ["a"] * 3)
        one.update(value)
    assert worlds.held(agent) == worlds.held(twin)


def test_contexts_of_exact_numbers() -> None:
    """As a table of mixed columns has them."""
    agent, twin = (Agent.from_config("greedy", features=2) for _ in range(2))
    exact = np.array([[1, Fraction(1, 2)], [Decimal("2.5"), np.int8(3)]], dtype=object)
    agent.act(exact, ["a", "b"])
    agent.update(1)
    twin.act([[1.0, 0.5], [2.5, 3.0]], ["a", "b"])
    twin.update(1)
    assert worlds.held(agent) == worlds.held(twin)


def test_labels_within_others_are_plain() -> None:
    agent = Agent.from_config("greedy", features=2)
    agent.act(X, [(torch.tensor(1), (np.int8(2),)), frozenset({1}), np.ma.array([7, 8])[0]])
    agent.act(X, [(1, (2,)), frozenset({True}), 7.0])
    assert agent.groups == ((1, (2,)), frozenset({1}), 7)


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
