"""A call that fails changes nothing, wherever in it and whatever is raised: twins tell."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fairbandit
from fairbandit import Agent, FairbanditError, Truth, build
from fairbandit.counting import sorted_segment
from fairbandit.counting.sorted_segment import Costs
from fairbandit.parts import Candidates, History, Rank, RecentCdf
from fairbandit.parts.base import State
from fairbandit.policy import Policy
from tests.agent import worlds
from tests.counting.test_against_dense import free

PACKAGE = Path(fairbandit.__file__).parent

BODY = ("parts", "maths", "counting", "policy.py", "streams.py", "agent/groups", "agent/tickets")
"""Where the work of a call is done, rather than undone."""

CONFIGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rounds": ({"split": "halves", "estimator": "ridge", "rank": "empirical_cdf"}, {}),
    "bonus": ({"split": "full", "estimator": "optimistic_ridge", "rank": "shrunk_cdf"}, {}),
    "rewards": ({"split": "halves", "estimator": "ridge", "rank": "noisy_rewards_cdf"}, {}),
    "sums": (
        {"split": "full", "estimator": "ridge", "rank": {"name": "recent_cdf", "size": 9}},
        {"refresh": 1.2, "patience": 20},
    ),
}


class Interrupted(BaseException):
    """Stands for KeyboardInterrupt."""


def interrupted(call: Callable[[], object], line: int, body: tuple[str, ...] = BODY) -> bool:
    """Makes a call and raises before the given line of what the package does for it, from 1.

    Returns:
        Whether it has so many lines; if not, the call was whole.
    """
    left = line

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        inside = path.startswith(str(PACKAGE)) and path[len(str(PACKAGE)) + 1 :].startswith(body)
        return each_line if inside else None

    def each_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if not left:
                sys.settrace(None)
                raise Interrupted
        return each_line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


def calls(agent: Agent, given: worlds.Stories) -> list[Callable[[], object]]:
    """Calls of every kind, with a known and a new group, in which rounds are forgotten."""
    x, labels = given.contexts, given.labels
    return [
        lambda: agent.act(x[0], labels[0]),
        lambda: agent.act(x[1], ["new", *labels[1][1:]]),
        lambda: agent.update(2.0),
        lambda: agent.update(1.0, agent.pending[0]),
        lambda: agent.observe(
            x[2:5], [["newer", *one[1:]] for one in labels[2:5]], [0, 0, 0], [1.0, 2.0, 3.0]
        ),
        lambda: agent.act(x[5], labels[5]),
        lambda: agent.drop(agent.pending[0]),
        lambda: agent.explain(x[6], ["newest", *labels[6][1:]]),
        lambda: agent.act(x[6], labels[6]),
    ]


def grown(config: dict[str, Any], options: dict[str, Any], given: worlds.Stories) -> Agent:
    """An agent that has rewards to wait for, and round 256 before it."""
    agent = Agent.from_config(config, features=3, **options)
    past = worlds.Stories(*(part[:210] for part in vars(given).values()))
    n = len(past.labels)
    agent.observe(past.contexts, past.labels, [0] * n, [float(r[0]) for r in past.rewards])
    live = worlds.Stories(*(part[210:250] for part in vars(given).values()))
    live.comes = [t if t % 3 else np.inf for t in range(1, 41)]
    for t, (x, labels) in enumerate(zip(live.contexts, live.labels, strict=True), 1):
        decision = agent.act(x, labels)
        if t % 3:
            agent.update(live.rewards[t - 1][decision.candidate])
    return agent


def rest(given: worlds.Stories) -> worlds.Stories:
    """What comes after the calls."""
    after = worlds.Stories(*(part[260:] for part in vars(given).values()))
    after.comes = [float(t) for t in range(1, len(after.labels) + 1)]
    return after


@pytest.mark.parametrize(
    ("name", "body", "step"),
    [
        *((name, BODY, 71 if name == "bonus" else 29) for name in CONFIGS),
        ("sums", ("agent/groups", "agent/tickets"), 1),
    ],
)
def test_interrupted_anywhere(
    name: str, body: tuple[str, ...], step: int, monkeypatch: Any
) -> None:
    """Whatever line of the work an interrupt comes before."""
    monkeypatch.setattr("fairbandit.agent.inputs.PIECE", 20)  # logs come in several pieces
    monkeypatch.setattr(Costs, "of", free)  # past contexts are sorted wherever that can be done
    monkeypatch.setattr(sorted_segment, "SHORTEST", 16)
    given = worlds.stories(5, 300)
    agent, twin = (grown(*CONFIGS[name], given) for _ in range(2))
    undone = 0
    for call, same in zip(calls(agent, given), calls(twin, given), strict=True):
        before, line = worlds.held(agent), 1
        while interrupted(call, line, body):
            assert worlds.held(agent) == before, line
            line, undone = line + step, undone + 1
        same()
        assert worlds.held(agent) == worlds.held(twin)
    assert undone > 50
    assert worlds.live(agent, rest(given)) == worlds.live(twin, rest(given))
    assert worlds.held(agent) == worlds.held(twin)


def test_a_pool_that_failed_is_forgotten(monkeypatch: Any) -> None:
    """Its contexts were stored by then, and the next pool has others, of other groups."""
    agent, twin = (grown(*CONFIGS["rounds"], worlds.stories(5, 300)) for _ in range(2))
    given, add = worlds.stories(8, 25), History.add_pools
    wild = np.tile([[1e3] * 3, [-1e3] * 3], (100, 1))

    def fails(*pool: Any, **named: Any) -> None:
        add(*pool, **named)
        raise MemoryError

    for t, (x, labels) in enumerate(zip(given.contexts, given.labels, strict=True)):
        if t % 5 == 0:  # another failure would write over what this one left
            with monkeypatch.context() as broken:
                broken.setattr(History, "add_pools", fails)
                with pytest.raises(MemoryError):
                    agent.act(wild, list(twin.groups[:2]) * 100)
        found, expected = agent.explain(x, labels), twin.explain(x, labels)
        assert torch.equal(found.index, expected.index)
        assert agent.act(x, labels) == twin.act(x, labels)
        for one in (agent, twin):
            one.update(1.0)
    assert worlds.held(agent) == worlds.held(twin)


class Moody(Rank):
    """Keeps a state that it changes in place, and fails when it is told to, having changed it."""

    part_kind, part_name = "rank", "moody"
    reference = "these tests"

    def bind(self, problem: Any) -> None:
        super().bind(problem)
        self.fault: BaseException | None = None
        self._sum = problem.zeros(problem.groups)

    def grow(self, problem: Any) -> None:
        super().grow(problem)
        self._sum = torch.cat([self._sum, problem.zeros(problem.groups - len(self._sum))])
        self._sum += 1.0

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        self._sum.index_add_(0, groups.reshape(-1).clamp(min=0), contexts.reshape(-1, 3)[:, 0])
        if self.fault is not None:
            raise self.fault

    def state(self) -> State:
        return {"sum": self._sum}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._sum = state["sum"]

    def _index(self, candidates: Candidates) -> Tensor:
        return (candidates.scores + self._sum[candidates.groups]).sigmoid()


def moody() -> Agent:
    """An agent with such a part."""
    policy = build({"split": "full", "estimator": "ridge", "rank": "identity"})
    assert isinstance(policy, Policy)
    policy.rank = Moody()
    return Agent(policy, features=3)


@pytest.mark.parametrize(
    "fault", [RuntimeError("no"), FairbanditError("no"), KeyboardInterrupt(), SystemExit(0)]
)
def test_a_part_that_raises(fault: BaseException) -> None:
    """Its state is changed in place, and so are groups, models and histories by then."""
    given = worlds.stories(7, 60)
    agent, twin = moody(), moody()
    past, future = (
        worlds.Stories(*(part[span] for part in vars(given).values()))
        for span in (slice(30), slice(30, 60))
    )
    assert worlds.live(agent, past) == worlds.live(twin, past)
    before, mood = worlds.held(agent), agent._policy.rank
    assert isinstance(mood, Moody)
    for _ in range(3):
        mood.fault = fault
        with pytest.raises(type(fault)):
            agent.act(future.contexts[0], ["new", *future.labels[0][1:]])
        mood.fault = fault
        with pytest.raises(type(fault)):
            agent.observe(future.contexts[:1], [["other"] * len(future.labels[0])], [0], [1.0])
        assert worlds.held(agent) == before
    future.comes = [t - 30 for t in future.comes]
    assert worlds.live(agent, future) == worlds.live(twin, future)
    assert worlds.held(agent) == worlds.held(twin)


def test_an_agent_that_could_not_be_made() -> None:
    """Neither does it change the policy that it was given."""
    policy = build({"split": "halves", "estimator": "ridge", "rank": "recent_cdf"})
    assert isinstance(policy, Policy)
    kept = Agent(policy, features=2, groups=["a"])
    kept.act([[1.0, 2.0]], ["a"])
    before = worlds.held(kept)

    class Unfit(RecentCdf):
        """Fails once everything else is bound."""

        def bind(self, problem: Any) -> None:
            super().bind(problem)
            raise RuntimeError("no")

    for options in ({"refresh": 1.5}, {"groups": 3}, {"exploration": -1.0}, {"truth": 3}):
        other = Policy(policy.split, policy.estimator, Unfit(), policy.selector)
        with pytest.raises((FairbanditError, RuntimeError)):
            Agent(other, **{"features": 5, **options})  # type: ignore[arg-type]
        assert other.split is policy.split
        assert worlds.held(kept) == before
    kept.act([[1.0, 2.0]], ["a"])


def test_an_oracle_that_raises_or_calls_back() -> None:
    """The agent cannot be called from within one of its own calls, and says so."""
    calls: list[Callable[[], object]] = []

    def cdf(groups: Tensor, values: Tensor) -> Tensor:
        if calls:
            calls[0]()
        return torch.special.ndtr(values)

    truth = Truth(torch.ones(2, dtype=torch.float64), cdf)
    agent = Agent.from_config("gmf", features=2, groups=["a"], truth=truth)
    agent.act([[1.0, 2.0]], ["a"])
    before = worlds.held(agent)
    for call in (
        lambda: agent.act([[1.0, 2.0]], ["a"]),
        lambda: agent.explain([[1.0, 2.0]], ["a"]),
        lambda: agent.update(1.0),
        lambda: agent.drop(1),
        lambda: agent.save("nowhere"),
    ):
        calls[:] = [call]
        with pytest.raises(FairbanditError, match="called from within one of its own calls"):
            agent.act([[3.0, 2.0]], ["a"])
        calls.clear()
        assert worlds.held(agent) == before
    calls[:] = [lambda: agent.pending]  # which may be read
    assert agent.act([[1.0, 2.0]], ["a"]).ticket == 2


def test_a_part_that_cannot_go_back(monkeypatch: Any) -> None:
    """Rather than to decide from a state that nobody knows, the agent refuses to go on."""
    agent = moody()
    agent.act([[1.0, 2.0, 3.0]], ["a"])

    def fails(*_: Any) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as broken:
        broken.setattr(Moody, "observe", fails)
        broken.setattr(Moody, "_load", fails)
        with pytest.raises(RuntimeError, match="no"):
            agent.act([[1.0, 2.0, 3.0]], ["a"])
    for _ in range(2):
        with pytest.raises(FairbanditError, match=r"could not be undone.* go on from a saved file"):
            agent.act([[1.0, 2.0, 3.0]], ["a"])
