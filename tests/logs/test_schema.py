"""What is compared where an agent and a log meet: features, groups, rewards and decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import Agent, FairbanditError, evaluate
from fairbandit.logs import erase
from tests.evaluation.logs import random_log, read_log

SELECTOR = {"name": "epsilon_greedy", "epsilon": 0.3}
LOGGER = {"split": "full", "estimator": "ridge", "rank": "identity", "selector": SELECTOR}
NAMES = ["age", "years", "test"]


def judge(agent: Agent, log: Any) -> str:
    """The notes of an evaluation on what it compares, or its error."""
    return " ".join(agent.schema.check_log(log.schema, log.pick_keys, "agent"))


def binary(log: Any) -> Any:
    """The log with rewards of 0 and 1, which many decisions share."""
    return replace(log, rewards=(log.rewards > 0).astype(float))


@pytest.mark.parametrize("coarse", [False, True])
def test_an_agent_is_not_judged_by_what_it_has_learned(coarse, tmp_path):
    """In a copy, in part, in another order, and saved or copied in between."""
    log = binary(random_log(400)) if coarse else random_log(400)
    made = Agent.from_log("greedy", log)
    made.save(tmp_path / "agent")
    order = np.random.default_rng(0).permutation(400)
    for agent in (made, Agent.load(tmp_path / "agent")):
        for seen in (log, log[1:], log[order], log[:100]):
            with pytest.raises(FairbanditError, match="learned from this log"):
                judge(agent, seen)
    with pytest.raises(FairbanditError, match="learned from this log"):
        evaluate(log, made, train=0)


@pytest.mark.parametrize(
    ("parts", "refused"),
    [
        ({}, False),
        ({"rank": "empirical_cdf", "selector": "minimum_pull"}, False),
        ({"estimator": "ridge"}, True),
        ({"rank": "noisy_rewards_cdf"}, True),
    ],
)
def test_an_agent_that_reads_no_reward_is_judged_by_any_log(parts, refused, tmp_path):
    """Rewards have told it nothing, even if it has observed them; a saved agent is the same."""
    log = random_log(60)
    policy = {"split": "full", "estimator": "zero", "rank": "identity", "selector": "argmax"}
    made = Agent.from_log({**policy, **parts}, log)
    made.save(tmp_path / "agent")
    for agent in (made, Agent.load(tmp_path / "agent")):
        if refused:
            with pytest.raises(FairbanditError, match="has learned from this log"):
                judge(agent, log)
        else:
            assert judge(agent, log) == ""


@pytest.mark.parametrize("picks", [1, 2])
def test_an_agent_is_not_judged_by_its_own_log(picks, tmp_path):
    """Nor by one that is shorter, or from which decisions were erased; most rewards come late."""
    draws, waiting = np.random.default_rng(0), []
    agent = Agent.from_config(LOGGER, features=2, groups=2, log=tmp_path / "log.jsonl")
    for _ in range(80):
        pool = draws.normal(size=(4, 2))
        decision = agent.act(pool, draws.integers(0, 2, 4), picks)
        waiting += [(float(pool[p].sum()), decision.ticket, p) for p in decision.picks]
    for reward in waiting[::-1]:
        agent.update(*reward)
    own, shorter = read_log(tmp_path / "log.jsonl"), tmp_path / "shorter.jsonl"
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    shorter.write_bytes(b"".join(lines[:-1]))
    erase(tmp_path / "log.jsonl", tmp_path / "erased.jsonl", range(20))
    for log in (own, read_log(shorter), read_log(tmp_path / "erased.jsonl")):
        with pytest.raises(FairbanditError, match="has learned from this log"):
            judge(agent, replace(log, encoder=None))


def test_logs_that_an_agent_has_not_seen_are_not_recognised():
    """Decisions of the same names, with features and rewards of two values."""
    coarse = [
        replace(binary(log), contexts=(log.contexts > 0) * 1.0)
        for log in (random_log(400, seed) for seed in range(20))
    ]
    agent = Agent.from_log("greedy", coarse[0])
    for log in coarse[1:]:
        judge(agent, log)
        judge(agent, replace(log, names=[""] * 400))
    mixed = replace(coarse[1], rewards=np.where(np.arange(400)[:, None] < 30, 0.0, 1.0))
    note = judge(Agent.from_log("greedy", mixed[:30]), mixed)
    assert note.endswith("or from equal picks: it knows 30 of its 400 picks with a reward")


def test_rounds_that_were_observed_before_are_noted(caplog):
    draws = np.random.default_rng(0)
    pools, labels = draws.normal(size=(60, 4, 3)), [["a", "b", "b", "a"]] * 60
    given = pools, labels, draws.integers(0, 4, 60), draws.normal(size=60)
    agent = Agent.from_config("fair_greedy", features=3)
    for rows in (range(50), range(40, 60)):
        agent.observe(*(np.asarray(values)[rows] for values in given))
    assert not any("observed before" in text for text in caplog.messages)
    agent.observe(*given)
    agent.observe(*(values[:4] for values in given))
    (message,) = (text for text in caplog.messages if "observed before" in text)
    assert message.startswith("100% of the observed rounds equal rounds that were observed before")


def test_features_are_compared_by_name_order_and_scale():
    frame, first = random_log(60, 1).frame, random_log(60).frame
    agent = Agent.from_log("uniform", read_log(first, features=NAMES))
    assert judge(agent, read_log(frame, like=agent.encoder)) == ""
    shoe = frame.rename(columns={"age": "shoe"})
    for wrong, options, message in (
        (frame, {"features": NAMES}, r"standardised by another table.*like=agent.encoder"),
        (frame, {"features": NAMES[::-1]}, r"takes the features 'age', .* has 'test', 'years'"),
        (shoe, {}, r"takes the features 'age'.* has 'shoe'"),
        (shoe, {"like": agent.encoder}, "no column 'age'"),
    ):
        with pytest.raises(FairbanditError, match=message):
            judge(agent, read_log(wrong, **options))
    other = frame.rename(columns={"reward": "salary"})
    note = judge(agent, read_log(other, reward="salary", like=agent.encoder))
    assert "learned from 'reward', and the log's reward is 'salary'" in note


def test_names_without_an_encoder():
    agent = Agent.from_log("uniform", random_log(50))
    assert judge(agent, random_log(50, 1)) == ""
    assert agent.schema.names == tuple(NAMES)
    with pytest.raises(FairbanditError, match="takes the features 'age', 'years', 'test'"):
        judge(agent, replace(random_log(50, 1), features=("years", "age", "test")))
    pool = pd.DataFrame(np.ones((2, 3)), columns=NAMES)
    agent.act(pool, ["a", "b"])
    other = pool[["test", "years", "age"]]
    for call in (
        lambda: agent.act(other, ["a", "b"]),
        lambda: agent.observe([other], [["a", "b"]], [0], [1.0]),
    ):
        with pytest.raises(FairbanditError, match=r"columns are \['test', 'years', 'age'\]; "):
            call()
    with pytest.raises(FairbanditError, match="takes a table only if these are its features"):
        Agent.from_config("uniform", features=3).act(pool, ["a", "b"])
    nameless = Agent.from_config("uniform", features=3, groups=["a", "b", "c"])
    note = "agent's features have no names, so that only their number is compared"
    assert note in judge(nameless, random_log(50, 1))


def test_groups_that_an_agent_does_not_know_are_refused():
    log = random_log(50)
    agent = Agent.from_config("uniform", features=3, groups=["a", "b"])
    with pytest.raises(FairbanditError, match="agent does not know: 'c'; it knows 'a', 'b'"):
        judge(agent, log)
    judge(Agent.from_config("uniform", features=3, groups=3), replace(log, labels=("0", "1.0", 2)))
    judge(Agent.from_config("uniform", features=3), log)  # which has met nobody yet
