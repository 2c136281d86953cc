"""A call that is broken off changes nothing, or is whole: wherever that is."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from torch import Tensor

import fairbandit
from fairbandit import Agent, FairbanditError
from fairbandit.estimators.ties import Approximate
from fairbandit.policy.build import build_policy
from fairbandit.ranks import EmpiricalCdf, Scored
from tests import support
from tests.agent import worlds
from tests.counting.test_against_dense import ways

PACKAGE = str(Path(fairbandit.__file__).parent)

CONFIGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rounds": ({"split": "halves", "estimator": "ridge", "rank": "empirical_cdf"}, {}),
    "bonus": ({"split": "full", "estimator": "optimistic_ridge", "rank": "shrunk_cdf"}, {}),
    "rewards": (
        {
            **{"split": "halves", "estimator": "group_ridge", "rank": "noisy_rewards_cdf"},
            "selector": "minimum_pull",
        },
        {},
    ),
    "sums": (
        {
            **{"split": "full", "estimator": "ridge", "refresh": 1.2},
            "rank": {"name": "recent_cdf", "size": 9},
        },
        {"patience": 20},
    ),
}

WRAPPERS = {"call"}
"""The function around every call."""

POINTS = 8
"""Places in each call of each agent where it is broken off."""


class BrokenOff(KeyboardInterrupt):
    """What a user's interrupt raises."""


class Lines(AbstractContextManager["Lines"]):
    """Raises before line number `at` of those that the package runs, counting from 1.

    What every call is wrapped in is left out: a line that ends a `with` statement may be traced
    before the lock is given back, but an interrupt does not come there.
    """

    def __init__(self, at: int = 0) -> None:
        self.count, self.at = 0, at

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        traced = code.co_filename.startswith(PACKAGE) and code.co_name not in WRAPPERS
        return self._line if traced else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        self.count += event == "line"
        if event == "line" and self.count == self.at:
            sys.settrace(None)
            raise BrokenOff
        return self._line


def calls(agent: Agent, given: worlds.Stories) -> list[Callable[[], object]]:
    """Calls of every kind, with known and new groups, in which rounds are forgotten."""
    x, labels = given.contexts, given.labels
    logged = [["newer", *one[1:]] for one in labels[2:5]]
    return [
        lambda: agent.act(x[0], labels[0]),
        lambda: agent.act(x[1], ["new", *labels[1][1:]]),
        lambda: agent.update(2.0),
        lambda: agent.update(1.0, agent.pending[0]),
        lambda: agent.observe(x[2:5], logged, [0, 0, 0], [1.0, 2.0, 3.0]),
        lambda: agent.act(x[5], labels[5]),
        lambda: agent.drop(agent.pending[0]),
        lambda: agent.explain(x[6], ["newest", *labels[6][1:]]),
        lambda: agent.act(x[6], labels[6]),
    ]


def grown(name: str, given: worlds.Stories) -> Agent:
    """An agent that has rewards to wait for, and the end of a chunk of rounds before it."""
    config, options = CONFIGS[name]
    agent = Agent.from_config(config, features=3, **options)
    past, lived = worlds.spans(given, 210)
    n = len(past.labels)
    agent.observe(past.contexts, past.labels, [0] * n, [float(r[0]) for r in past.rewards])
    worlds.live(agent, lived)
    return agent


def broken_off(call: Callable[[], object], when: AbstractContextManager[Any]) -> bool:
    """Whether a call was broken off."""
    try:
        with when:
            call()
    except (BrokenOff, FairbanditError):  # which some errors become
        return True
    return False


@pytest.mark.parametrize("name", support.some(CONFIGS, 2))
def test_broken_off_anywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either nothing has changed, or the call was whole; then it is made again from the start."""
    monkeypatch.setattr("fairbandit.agent.rounds.ROUNDS_TOGETHER", 2)  # logs come in several pieces
    draw, broken = random.Random(name), 0
    past, now, future = worlds.spans(worlds.stories(5, 300), 250, 260)
    with ways(searched=name == "rounds"):  # past contexts are sorted wherever that can be done
        agent, twin = (grown(name, past) for _ in range(2))
        for call, same in zip(calls(agent, now), calls(twin, now), strict=True):
            start, before = agent._ledger.state, worlds.held(twin)
            with Lines() as counted:
                same()
            after = worlds.held(twin)
            for _ in range(POINTS if counted.count else 0):
                at = draw.randint(1, counted.count)
                broken += broken_off(call, Lines(at))
                assert worlds.held(agent) in (before, after), at
                agent._ledger.state = start
                assert worlds.held(agent) == before, at
            call()
            assert worlds.held(agent) == after
        assert worlds.live(agent, future) == worlds.live(twin, future)
    assert worlds.held(agent) == worlds.held(twin)
    assert broken > 5 * POINTS


class Slow(EmpiricalCdf):
    """Waits within a call, in the process that made it, until it is let go."""

    def __init__(self) -> None:
        self.process, self.entered, self.go = os.getpid(), threading.Event(), threading.Event()

    def _index(self, scored: Scored) -> Tensor | Approximate:
        if os.getpid() == self.process:
            self.entered.set()
            self.go.wait(60)
        return super()._index(scored)


def test_a_fork_while_a_thread_is_inside() -> None:
    """The child has no such thread, and its agent is as before the call."""
    policy = build_policy("fair_greedy")
    slow = Slow()
    agent, pool = Agent(support.replaced(policy, rank=slow), features=1), [[1.0], [2.0]]
    thread = threading.Thread(target=agent.act, args=(pool, ["a", "new"]))
    thread.start()
    assert slow.entered.wait(60)
    child = os.fork()
    if child == 0:
        try:
            right = agent.rounds == 0 and agent.act(pool, ["a", "b"]).ticket == 1
            os._exit(0 if right and agent.groups == ("a", "b") else 2)
        finally:
            os._exit(3)
    ended, waited = (0, 0), time.monotonic()
    while ended[0] == 0 and time.monotonic() < waited + 30:
        ended = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    slow.go.set()
    thread.join()
    assert ended == (child, 0)
    assert (agent.rounds, agent.groups) == (1, ("a", "new"))


def test_a_part_that_calls_back() -> None:
    """A call from within another one is made, and the outer one is refused and changes nothing."""
    inner: list[Callable[[], object]] = []

    class Calls(EmpiricalCdf):
        def _index(self, scored: Scored) -> Tensor | Approximate:
            while inner:
                inner.pop()()
            return super()._index(scored)

    policy, pool = build_policy("fair_greedy"), ([[1.0, 2.0]], ["a"])
    agent, twin = (Agent(support.replaced(policy, rank=Calls()), features=2) for _ in range(2))
    for one in (agent, twin):
        one.act(*pool)
    for method, given in (("act", pool), ("update", (1.0,))):
        inner[:] = [partial(getattr(agent, method), *given)]
        with pytest.raises(FairbanditError, match="called from within one of its own calls"):
            agent.act([[3.0, 2.0]], ["a"])
        getattr(twin, method)(*given)
        assert worlds.held(agent) == worlds.held(twin)
    inner[:] = [lambda: agent.explain(*pool)]  # which may be asked
    assert agent.act(*pool) == twin.act(*pool)
