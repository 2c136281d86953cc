"""Threads that share an agent: calls take effect one after the other, and files are whole."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit import Agent
from tests import literal

THREADS, CALLS = 8, 800
D, K = 3, 4
NAMES = ["a", "b", "c", "d", "e"]

CONFIG = {
    "split": "halves",
    "estimator": {"name": "ridge", "regularization": 0.5, "noise": 0.0},
    "rank": "empirical_cdf",
}


def pool(draws: np.random.Generator, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Small integers, whose sums are exact in any order."""
    return draws.integers(-3, 4, (K, D)).astype(float), draws.choice(names, K).tolist()


def together(work: Callable[[int], None], also: Callable[[threading.Event], None]) -> None:
    """Runs the work of all threads and one more beside them, switching as often as can be."""
    failed: list[BaseException] = []
    start, done = threading.Barrier(THREADS + 1), threading.Event()

    def run(call: Callable[[Any], None], given: object) -> None:
        try:
            start.wait()
            call(given)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work, number)) for number in range(THREADS)]
    beside = threading.Thread(target=run, args=(also, done))
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in (*threads, beside):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        beside.join()
    finally:
        sys.setswitchinterval(often)
    if failed:
        raise failed[0]


def watched(agent: Agent, path: Path, seen: list[int]) -> Callable[[threading.Event], None]:
    """Saves and loads the agent until it is done, and reads it between."""

    def watch(done: threading.Event) -> None:
        while not done.is_set():
            agent.save(path)
            seen.append(Agent.load(path).rounds)
            agent.explain(np.ones((2, D)), ["a", "new"])
            assert len(agent.pending) <= agent.rounds
            assert set(agent.groups) <= set(NAMES)
        assert seen == sorted(seen)

    return watch


def test_threads_share_an_agent(tmp_path: Path) -> None:
    """Every ticket is unique, every round counted and every reward learned once."""
    agent = Agent.from_config(CONFIG, features=D, seed=3)
    each, x, tickets = CALLS // (2 * THREADS), dict[int, np.ndarray](), list[list[int]]()

    def work(number: int) -> None:
        draws, own = np.random.default_rng(number), list[int]()
        tickets.append(own)
        for i in range(each):
            contexts, labels = pool(draws, NAMES[: 1 + i * len(NAMES) // each])
            decision = agent.act(contexts, labels)
            x[decision.ticket] = contexts[decision.candidate]
            own.append(decision.ticket)
            if i >= 3:  # late, and of this thread's own decisions
                agent.update(float(own[i - 3] % 7), own[i - 3])

    seen: list[int] = []
    together(work, watched(agent, tmp_path / "agent", seen))
    given = [ticket for own in tickets for ticket in own]
    rounds = each * THREADS
    assert agent.rounds == rounds
    assert sorted(given) == list(range(1, rounds + 1))
    assert all(own == sorted(own) for own in tickets)
    assert agent.pending == tuple(sorted(ticket for own in tickets for ticket in own[-3:]))
    assert seen
    for ticket in agent.pending:
        agent.update(float(ticket % 7), ticket)
    last = agent.act(np.zeros((K, D)), ["a"] * K)
    taught = range(1, last.ticket // 2 + 1)
    X, r = np.array([x[t] for t in taught]), np.array([t % 7.0 for t in taught])
    theta = agent.explain(np.zeros((K, D)), ["a"] * K).theta
    assert theta is not None
    np.testing.assert_allclose(theta, literal.ridge(X, r, 0.5)[1], rtol=1e-12)


def test_a_call_waits_for_whoever_holds_the_lock() -> None:
    agent = Agent.from_config("greedy", features=D)
    thread = threading.Thread(target=agent.act, args=(np.ones((1, D)), ["a"]))
    with agent.lock:
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        assert agent.act(np.ones((1, D)), ["a"]).ticket == 1  # the holder's own calls go on
    thread.join()
    assert agent.rounds == 2
