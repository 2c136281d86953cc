"""Several workers with logs of their own, whose events merge into the next saved agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairbandit import Agent, FairbanditError, read_log
from fairbandit.agent import fold, replay
from fairbandit.logs import own_lines
from fairbandit.notices import noted
from tests.agent import worlds

K, D = 3, 4


def base(path: Path, rounds: int = 0, policy: Any = "fair_greedy", **options: Any) -> Path:
    """The file of an agent that the workers load."""
    agent = Agent.from_config(policy, features=D, groups=["a"], seed=7, **options)
    serve(agent, rounds, 99)
    agent.save(path)
    return path


def serve(agent: Agent, n: int, seed: int) -> None:
    """Decisions with late and missing rewards, people who decide otherwise, and new groups."""
    draws = np.random.default_rng(seed)
    for _ in range(n):
        labels = [f"g{int(draws.integers(1 + agent.rounds // 20))}" for _ in range(K)]
        decision = agent.act(draws.normal(size=(K, D)), labels)
        if draws.random() < 0.2:
            agent.taken(decision.ticket, (decision.candidate + 1) % K)
        if draws.random() < 0.8:
            agent.update(float(draws.normal()), draws.choice(agent.pending))


def test_workers_decide_apart_and_learn_together(tmp_path: Path) -> None:
    """In turns, in two steps; a worker that takes up the merged agent goes on after restarts."""
    first, logs = base(tmp_path / "0.agent", 30), [tmp_path / f"{w}.jsonl" for w in (1, 2, 3)]
    workers = [Agent.load(first, worker=w, log=log, save_every=20) for w, log in enumerate(logs, 1)]
    for turn in range(6):
        for agent in workers:
            serve(agent, 7, turn)
    assert {ticket // 10**9 for agent in workers for ticket in agent.pending} == {1, 2, 3}
    merged = Agent.merge(first, logs)
    assert merged.rounds == 30 + 3 * 6 * 7
    assert worlds.held(merged) == worlds.held(Agent.merge(first, logs[::-1]))
    merged.save(second := tmp_path / "1.agent")
    serve(workers[0], 5, 50)
    for agent in workers[:2]:
        agent.refresh(second)
        assert agent.rounds >= merged.rounds
        serve(agent, 5, 51)
    serve(workers[2], 5, 52)
    held = [worlds.held(agent) for agent in workers]
    for agent in workers:
        agent.close()
    for number, log in enumerate(logs):
        file = second if number < 2 else first
        for every in (None, 20):
            with Agent.load(file, worker=number + 1, log=log, save_every=every) as again:
                assert worlds.held(again) == held[number]
        assert replay(log, [first, second]).lines > 50
    with pytest.raises(FairbanditError, match="goes on from a saved agent whose file has"):
        Agent.load(first, worker=1, log=logs[0])
    later = Agent.merge(second, logs)
    assert later.rounds == merged.rounds + 20
    assert len(read_log(logs[0])) == 52


def test_a_reward_that_comes_to_another_worker(tmp_path: Path) -> None:
    """It waits for its decision; one that is reported twice counts once."""
    first, logs = base(tmp_path / "agent"), [tmp_path / "logs" / f"{w}.jsonl" for w in (1, 2)]
    (tmp_path / "logs").mkdir()
    one, other = (Agent.load(first, worker=w, log=log) for w, log in enumerate(logs, 1))
    x = np.eye(K, D)
    decisions = [one.act(x, ["a"] * K) for _ in range(4)]
    tickets = [decision.ticket for decision in decisions]
    assert tickets == [10**9 + n for n in range(1, 5)]
    other.update(1.0, tickets[0])
    other.update(2.0, tickets[1])
    one.update(2.0, tickets[1])
    other.update({decisions[2].candidate: 3.0}, tickets[2])
    other.update({(decisions[3].candidate + 1) % K: 4.0}, tickets[3])  # was not picked
    with noted() as notes:
        merged = Agent.merge(first, logs)
    assert merged.pending == (tickets[3],)
    assert len(notes) == 2
    log = read_log(tmp_path / "logs")
    assert log.rewards[:, 0].tolist()[:3] == [1.0, 2.0, 3.0]
    assert np.isnan(log.rewards[3, 0])
    alone = Agent.load(first, worker=1)
    for _ in decisions:
        alone.act(x, ["a"] * K)
    for ticket, reward in zip(tickets[:3], (1.0, 2.0, 3.0), strict=True):
        alone.update(reward, ticket)
    theta, expected = (agent.explain(x, ["a"] * K).theta for agent in (merged, alone))
    assert theta is not None
    assert expected is not None
    np.testing.assert_allclose(theta, expected, atol=1e-6)
    with noted() as notes:
        assert not Agent.merge(first, logs[1:]).pending
    assert any("4 decisions whose rewards are known are in none of the logs" in n for n in notes)


def test_patience_counts_the_rounds_of_a_worker(tmp_path: Path) -> None:
    first, logs = base(tmp_path / "agent", patience=3), [tmp_path / f"{w}.jsonl" for w in (1, 2)]
    one, other = (Agent.load(first, worker=w, log=log) for w, log in enumerate(logs, 1))
    x = np.eye(K, D)
    for _ in range(2):
        one.act(x, ["a"] * K)
    for _ in range(9):
        other.act(x, ["a"] * K)
    one.update(1.0, 10**9 + 1)
    merged = Agent.merge(first, logs)
    assert [t for t in merged.pending if t < 2 * 10**9] == [10**9 + 2]
    assert [t % 10**9 for t in merged.pending if t > 2 * 10**9] == [6, 7, 8, 9]


def test_logs_that_do_not_merge(tmp_path: Path) -> None:
    first, log = base(tmp_path / "agent"), tmp_path / "1.jsonl"
    with Agent.load(first, worker=1, log=log) as agent:
        serve(agent, 3, 0)
    with Agent.load(first, worker=1, log=tmp_path / "twin.jsonl") as agent:
        serve(agent, 3, 1)
    with pytest.raises(FairbanditError, match="is a second log of worker 1"):
        Agent.merge(first, [log, tmp_path / "twin.jsonl"])
    merged = Agent.merge(first, [log])
    merged.save(tmp_path / "merged")
    with pytest.raises(FairbanditError, match="is not the log that worker 1 wrote before"):
        Agent.merge(tmp_path / "merged", [tmp_path / "twin.jsonl"])
    other = base(tmp_path / "other", policy="greedy")
    with pytest.raises(FairbanditError, match=r"policy\.rank.* in the log and .* now"):
        Agent.merge(other, [log])
    with pytest.raises(FairbanditError, match="only an agent with a log"):
        Agent.load(first, worker=1).refresh(first)
    with Agent.load(first, worker=1, log=log) as agent:
        with pytest.raises(FairbanditError, match="expected the policy that was saved"):
            agent.refresh(other)
        serve(agent, 1, 0)


@pytest.mark.all
def test_four_processes_of_which_two_are_killed(tmp_path: Path) -> None:
    """2,000 decisions; every answer is in the merged agent, which is the fold of the logs."""
    first, script = base(tmp_path / "agent"), Path(__file__).with_name("worker.py")
    logs = [tmp_path / f"{w}.jsonl" for w in range(1, 5)]
    words = [[sys.executable, str(script), str(first), str(log), "500"] for log in logs]
    running = [
        subprocess.Popen([*w, str(n)], stdout=subprocess.PIPE) for n, w in enumerate(words, 1)
    ]
    answers = dict[int, str]()
    for number, process in enumerate(running):
        assert process.stdout is not None
        for n, answer in enumerate(process.stdout):
            ticket, pick = answer.decode().split()
            answers[int(ticket)] = pick
            if number % 2 and n == 200:
                os.kill(process.pid, signal.SIGKILL)
                break
        process.stdout.close()
        process.wait()
    for number in (1, 3):  # the killed workers go on
        subprocess.run([*words[number], str(number + 1)], check=True, capture_output=True)
    merged = Agent.merge(first, logs)
    assert merged.rounds == 2000
    logged = read_log(logs[0]), read_log(logs[1])
    picks = {t: str(p) for log in logged for t, p in zip(log.names, log.picks[:, 0], strict=True)}
    assert all(picks[t] == pick for t, pick in answers.items() if t < 3 * 10**9)
    alone = Agent.load(first)  # the fold of all lines in the order of time, by hand
    state, policy = alone._ledger.state, alone.policy
    lines = [line for log in logs for line in own_lines(log) if line.at.line > 1]
    of_log = {str(log): worker for worker, log in enumerate(logs, 1)}
    for line in sorted(lines, key=lambda line: str(line.event.time)):
        worker = of_log[line.where.split(", line")[0]]
        state = fold.after_line(policy, state.of_worker(worker), line)
    alone._ledger.state = state.of_worker(0)
    assert worlds.held(alone) == worlds.held(merged)
