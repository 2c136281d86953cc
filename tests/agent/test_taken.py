"""People who decide otherwise than the agent recommends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent, FairbanditError, evaluate, read_log
from fairbandit.logs import overrides
from tests.agent import worlds

X, LABELS = np.arange(8.0).reshape(4, 2), ["a", "b", "a", "b"]


def begun(log: Path | None = None, policy: Any = "fair_greedy", **options: Any) -> Agent:
    return Agent.from_config(policy, features=2, groups=["a", "b"], log=log, **options)


def serve(agent: Agent, n: int, seed: int = 0, m: int = 1) -> None:
    """Pools in which a person now and then takes another candidate than the pick."""
    draws = np.random.default_rng(seed)
    for _ in range(n):
        x, labels = draws.normal(size=(4, 2)), draws.choice(["a", "b"], 4).tolist()
        decision, taken = agent.act(x, labels, m), dict[int, int]()
        free = [place for place in range(4) if place not in decision.picks]
        for pick in decision.picks:
            taken[pick] = free.pop() if draws.random() < 0.5 else pick
            agent.taken(decision.ticket, taken[pick], instead=pick, by="her", why="met them")
        agent.update({place: float(x[place].sum()) for place in taken.values()}, decision.ticket)


@pytest.mark.parametrize("shadow", [False, True])
def test_the_model_learns_from_who_was_taken(shadow: bool, tmp_path: Path) -> None:
    """The same model as of an agent that observed these people; whatever it recommends."""
    agent, log = begun(tmp_path / "log.jsonl", "greedy", shadow=shadow), tmp_path / "log.jsonl"
    other = begun(None, "greedy")
    serve(agent, 20)
    read = read_log(log)
    assert len(read) == 20
    assert read.contexts is not None
    x = read.contexts.reshape(20, 4, 2)
    other.observe(x, [["a"] * 4] * 20, read.picks[:, 0], read.rewards[:, 0])
    theta, expected = (one.explain(X, LABELS).theta for one in (agent, other))
    assert theta is not None
    assert expected is not None
    assert torch.allclose(theta, expected, rtol=0, atol=1e-9)
    assert np.isnan(read.propensities).all()
    assert read.probabilities is None


@pytest.mark.parametrize("shadow", [False, True])
def test_groups_are_counted_by_who_was_taken(shadow: bool) -> None:
    """A selector that owes picks to a group pays until people of this group are taken."""
    selector = {"name": "minimum_pull"}
    config = {"split": "full", "estimator": "ridge", "rank": "identity", "selector": selector}
    agent = begun(None, config, shadow=shadow)
    x = np.ones((2, 2))
    for _ in range(30):
        decision = agent.act(x, ["a", "b"])
        agent.taken(decision.ticket, 0)  # always of group a
        agent.update(1.0, decision.ticket)
    assert agent.act(x, ["a", "b"]).candidate == 1


def test_what_cannot_be_taken() -> None:
    agent = begun()
    first, _ = agent.act(X, LABELS, 2), agent.act(X, LABELS)
    one, other = first.picks
    left = [place for place in range(4) if place not in first.picks]
    agent.update(1.0, 1, one)
    held = worlds.held(agent)
    for given, message in (
        ((1, 4, other), "or is not one of the 4 in the pool"),
        ((1, other, left[0]), r"was not picked, or has a reward already; instead: expected one of"),
        ((1, left[0], one), "was not picked, or has a reward already"),
        ((1, one, other), f"candidate {one} of ticket 1 is picked already"),
        ((7, 1), "ticket 7 does not wait"),
    ):
        with pytest.raises(FairbanditError, match=message):
            agent.taken(*given)
    assert worlds.held(agent) == held
    agent.taken(1, left[0], other)
    agent.update(1.0, 1, left[0])
    assert agent.pending == (2,)


def test_a_shadow_waits_until_somebody_is_taken(tmp_path: Path) -> None:
    agent = begun(tmp_path / "log.jsonl", shadow=True)
    decision = agent.act(X, LABELS)
    with pytest.raises(FairbanditError, match="say first who was taken"):
        agent.update(1.0, decision.ticket)
    agent.act(X, LABELS)
    agent.taken(decision.ticket, decision.candidate)
    agent.update(1.0, decision.ticket)
    assert agent.pending == (2,)
    read = read_log(tmp_path / "log.jsonl")
    assert [*read.names] == [1]
    assert "1 of decisions without a pick" in read.notes[0]


def test_recommended_and_taken_are_compared_by_group(tmp_path: Path) -> None:
    """By a count of the calls; weighted estimates of such a log are refused."""
    agent, draws = begun(tmp_path / "log.jsonl"), np.random.default_rng(0)
    rows = {label: dict.fromkeys(("candidates", "recommended", "taken"), 0) for label in "ab"}
    changed = {label: [0, 0] for label in "ab"}
    for _ in range(40):
        x, labels = draws.normal(size=(4, 2)), draws.choice(["a", "b"], 4).tolist()
        decision = agent.act(x, labels)
        pick = taken = decision.candidate
        if draws.random() < 0.3:
            taken = (pick + 1) % 4
            agent.taken(decision.ticket, taken)
        agent.update(float(x[taken].sum()), decision.ticket)
        for label in labels:
            rows[label]["candidates"] += 1
        rows[labels[pick]]["recommended"] += 1
        rows[labels[taken]]["taken"] += 1
        changed[labels[pick]][0] += taken != pick
        changed[labels[taken]][1] += taken != pick
    table = overrides(tmp_path / "log.jsonl")
    assert [*table["group"]] == ["a", "b"]
    for label, row in zip("ab", table.to_dict("records"), strict=True):
        assert {key: row[key] for key in rows[label]} == rows[label]
        assert [row["passed_over"], row["preferred"]] == changed[label]
    found = evaluate(read_log(tmp_path / "log.jsonl"), "uniform", train=0)
    found = found[(found["policy"] == "uniform") & (found["measure"] == "reward")]
    assert [*found["estimator"]] == ["direct"]
