"""Many pools at once are decided as by single calls."""

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import Agent, Encoder, FairbanditError
from fairbandit.agent.replaying import replay
from fairbandit.policy.build import presets
from tests import support
from tests.agent import worlds

LAW = {"name": "rolling", "count": "uniform", "candidates": 9, "epsilon": 0.2}

POLICIES: dict[str, Any] = {
    **worlds.deployable({name: name for name in presets()}),
    "refresh": {"name": "fair_greedy", "rank": {"name": "recent_cdf", "size": 20}},
    "rounding": {"split": "halves", "estimator": "ridge", "rank": "identity"},
    "open places": {"name": "fair_rolling", "selector": LAW},
}
POLICIES["refresh"]["refresh"] = 1.05
POLICIES["rounding"]["selector"] = "proportional"

Pool = tuple[np.ndarray[Any, Any], list[str]]


def pools(draws: np.random.Generator, n: int, names: str) -> list[Pool]:
    """Pools of 1 to 12 candidates."""
    sizes = draws.integers(1, 13, n).tolist()
    return [(draws.normal(size=(k, 3)), draws.choice([*names], k).tolist()) for k in sizes]


def begun(config: Any, log: Path) -> Agent:
    """An agent that has learned from 200 rounds."""
    options = {"features": 3, "groups": ["a"], "patience": 60, "log": log}
    agent, draws = Agent.from_config(config, **options), np.random.default_rng(0)
    x, labels = draws.normal(size=(200, 4, 3)), draws.choice([*"abc"], (200, 4))
    agent.observe(x, labels, draws.integers(0, 4, 200), x[:, 0].sum(1) + draws.normal(size=200))
    return agent


def lines(log: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [
        {k: v for k, v in one.items() if k not in ("time", "previous", "sha256")} for one in found
    ]


@pytest.mark.parametrize(("name", "picks"), support.some(product(POLICIES, [1, 3]), 3))
def test_as_single_calls(name: str, picks: int, tmp_path: Path) -> None:
    """Decisions, log and later state, with new groups and late rewards in between."""
    logs = [tmp_path / "one.jsonl", tmp_path / "many.jsonl"]
    one, many = (begun(POLICIES[name], log) for log in logs)
    draws = np.random.default_rng(1)
    if name == "open places":
        for agent in (one, many):
            agent.round("open", places=2, candidates=5).offer([1.0, 0.0, 0.0], "b")
    for n, names in ((1, "ab"), (40, "abc"), (30, "abcde")):
        given = pools(draws, n, names)
        single = [one.act(x, labels, picks) for x, labels in given]
        assert worlds.held(many) != worlds.held(one)
        together = many.act_many([x for x, _ in given], [labels for _, labels in given], picks)
        for a, b in zip(single, together, strict=True):
            assert (a.candidate, a.ticket, a.picks) == (b.candidate, b.ticket, b.picks)
            np.testing.assert_allclose(a.propensities, b.propensities, rtol=0, atol=1e-9)
        for ticket in draws.permutation(one.pending)[: n // 2].tolist():
            places = one._ledger.state.find(ticket).open
            rewards = dict(zip(places, draws.normal(size=len(places)).tolist(), strict=True))
            for agent in (one, many):
                agent.update(rewards, ticket)
        held = [worlds.held(agent, log=False) for agent in (one, many)]
        if name == "refresh":  # contexts that no round reads any more are forgotten lazily
            for state in held:
                del state["known"]["contexts"]
        assert held[0] == held[1]
    for a, b in zip(*map(lines, logs), strict=True):
        chances, others = (line.pop("probabilities", []) for line in (a, b))
        assert a == b
        np.testing.assert_allclose(chances, others, rtol=0, atol=1e-9)
    if picks == 3:
        assert replay(logs[1]).sha256 == many.log_hash


X, LABELS = np.arange(24.0).reshape(2, 3, 4), [["a", "b", "a"], ["b", "a", "a"]]


@pytest.fixture
def agent() -> Agent:
    return Agent.from_config("fair_greedy", features=4, groups=["a", "b"])


@pytest.mark.parametrize(
    ("contexts", "groups", "more", "message"),
    [
        ([X[0], X[1, :, :2]], LABELS, {}, r"pool 1: contexts: expected shape \(K, 4\)"),
        ([X[0], X[1] * np.nan], LABELS, {}, r"pool 1: contexts: .* got nan at \[0, 0\]"),
        (X, [LABELS[0], ["b"]], {}, r"pool 1: groups: expected 3 labels, .* got 1"),
        (X[0], LABELS[0], {"pools": [1, 2, None]}, "candidate 2 lacks a pool"),
        (pd.DataFrame(X[0]), LABELS[0], {}, "got one table; .* pools=COLUMN"),
        (pd.DataFrame(X[0]), LABELS[0], {"pools": "day"}, "the table lacks the column 'day'"),
        ({"day": [1]}, "sex", {"pools": "day"}, "groups: the table lacks the column 'sex'"),
    ],
)
def test_a_bad_pool_is_named_and_nothing_is_decided(
    agent: Agent, contexts: Any, groups: Any, more: Any, message: str
) -> None:
    before = worlds.held(agent)
    with pytest.raises(FairbanditError, match=message):
        agent.act_many(contexts, groups, **more)
    assert worlds.held(agent) == before


def test_a_table_with_a_column_of_pools() -> None:
    """Its rows may be in any order; the pools come in the order of their first rows."""
    draws = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "day": draws.permutation(np.repeat(["mon", "7", "007"], [5, 3, 4])),
            "sex": draws.choice(["f", "m"], 12),
            "age": draws.integers(20, 60, 12),
            "job": draws.choice(["nurse", "pilot"], 12),
            "pay": draws.normal(size=12),
        }
    )
    encoder = Encoder.from_table(table, group="sex", reward="pay", exclude=["day"])
    one, many = (Agent.from_config("fair_greedy", features=encoder) for _ in range(2))
    days = table["day"].unique()
    apart = [table[table["day"] == day] for day in days]
    single = [one.act(pool, pool["sex"]) for pool in apart]
    assert many.act_many(table, "sex", pools="day") == single
    single = [one.act(pool, pool["sex"]) for pool in apart]
    assert many.act_many(apart, [pool["sex"] for pool in apart]) == single
    single = [one.act(pool, pool["sex"]) for pool in apart]
    assert many.act_many(encoder.encode(table), table["sex"], pools=table["day"]) == single
    with pytest.raises(FairbanditError, match=r"pool 1: .* no column 'job'"):
        many.act_many([apart[0], apart[1][["age"]]], [pool["sex"] for pool in apart[:2]])
    named = Agent.from_config("fair_greedy", features=["age", "pay"])
    assert len(named.act_many(table.drop(columns="job"), "sex", pools="day")) == 3
    table["age"] = table["age"].astype(object)
    table.loc[7, "age"] = "x"
    for given in (table, table.to_dict("list"), table.to_dict("records")):
        with pytest.raises(FairbanditError, match=r"column 'age', row 7 .* a number .* got 'x'"):
            many.act_many(given, "sex", pools="day")


def test_the_log_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write, written = tmp_path / "log.jsonl", os.write, list[int]()
    agent = Agent.from_config("fair_greedy", features=4, groups=["a", "b"], log=log)
    before, whole = worlds.held(agent), log.read_bytes()

    def part(file: int, data: bytes) -> int:
        return write(file, data[: len(data) // 2])

    def counted(file: int, data: bytes) -> int:
        written.append(data.count(b"\n"))
        return write(file, data)

    monkeypatch.setattr(os, "write", part)
    with pytest.raises(FairbanditError, match="nothing was decided"):
        agent.act_many(X, LABELS)
    assert (worlds.held(agent), log.read_bytes()) == (before, whole)
    monkeypatch.setattr(os, "write", counted)
    agent.act_many(X, LABELS)
    assert written == [2]


def test_one_large_pool_does_not_make_all_pools_wide(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths, policy = list[int](), agent.policy
    propose = policy.propose

    def seen(history: Any, picks: int) -> Any:
        widths.append(history.block.groups.numel())
        return propose(history, picks)

    monkeypatch.setattr(policy, "propose", seen)
    sizes = [4] * 100 + [5_000] + [4] * 100
    agent.act_many([np.ones((k, 4)) for k in sizes], [["a"] * k for k in sizes])
    assert sum(widths) < 2 * sum(sizes)
