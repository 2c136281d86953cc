"""Ids of callers, and rewards that are reported twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from fairbandit import Agent, FairbanditError
from fairbandit.agent import replay
from fairbandit.agent.state import Remembered, key
from fairbandit.logs import own_lines
from fairbandit.logs.events import Decided
from fairbandit.notices import noted
from tests.agent import worlds

X, LABELS = np.arange(6.0).reshape(3, 2), ["a", "b", "a"]


def test_an_id_is_a_ticket(tmp_path: Path) -> None:
    """Saved, loaded and replayed from the log; it belongs to one decision for ever."""
    log, saved = tmp_path / "log.jsonl", tmp_path / "agent"
    with Agent.from_config("fair_greedy", features=2, log=log) as agent:
        agent.act(X, LABELS)
        about = {"day": "monday", "desk": 3, "urgent": True}
        agent.act(X, LABELS, id="application 7", about=about)
        agent.save(saved)
        agent.act(X, LABELS, id="application 8")
        agent.update(1.0, "application 8")
        agent.drop("application 7")
        held = worlds.held(agent)
    for of_file in (True, False):
        with Agent.load(saved, log=log) if of_file else agent_of(log) as agent:
            assert worlds.held(agent) == held
            for taken in ("application 7", "application 8"):
                with pytest.raises(FairbanditError, match="belongs to an earlier decision"):
                    agent.act(X, LABELS, id=taken)
            assert worlds.held(agent) == held
    decided = [line.event for line in own_lines(log) if isinstance(line.event, Decided)]
    assert [event.id for event in decided] == [None, "application 7", "application 8"]
    assert [event.about for event in decided] == [None, about, None]
    assert replay(log).decisions == 3


def agent_of(log: Path) -> Agent:
    return Agent.from_config("fair_greedy", features=2, log=log)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": 7}, r"id: expected a text, as in str\(id\), got 7"),
        ({"id": ""}, "id: expected a text"),
        ({"id": UUID(int=7)}, "id: expected a text"),
        ({"about": {"a": [1]}}, "about: "),
        ({"about": "monday"}, "about: "),
    ],
)
def test_ids_of_other_types_are_refused(given: Any, message: str) -> None:
    agent = Agent.from_config("fair_greedy", features=2)
    before = worlds.held(agent)
    with pytest.raises(FairbanditError, match=message):
        agent.act(X, LABELS, **given)
    assert worlds.held(agent) == before


@pytest.mark.parametrize("way", ["number", "list", "mapping", "candidate"])
def test_a_report_that_is_repeated_changes_nothing(way: str, tmp_path: Path) -> None:
    """Another reward of the same decision is refused, even by an agent that was loaded."""
    log, picks = tmp_path / "log.jsonl", 1 if way == "number" else 2
    agent = Agent.from_config("fair_greedy", features=2, log=log)
    decision = agent.act(X, LABELS, picks)
    rewards = dict(zip(decision.picks, (0.5, -0.0), strict=False))
    reports: dict[str, list[tuple[Any, ...]]] = {
        "number": [(0.5, 1)],
        "list": [([0.5, 0.0], 1)],
        "mapping": [(rewards, 1)],
        "candidate": [(reward, 1, place) for place, reward in rewards.items()],
    }
    for report in reports[way]:
        agent.update(*report)
    agent.act(X, LABELS)
    agent.save(tmp_path / "agent")
    held = worlds.held(agent)
    agent.close()
    agent = Agent.load(tmp_path / "agent", log=log)
    for report in reports[way]:
        with noted() as notes:
            agent.update(*report)
        assert notes == ["the reward of ticket 1 was reported before, and changes nothing"]
    others = {"number": 2.0, "list": [2.0, 0.0], "mapping": {decision.picks[0]: 2.0}}
    with pytest.raises(FairbanditError, match=r"its reward was reported, and was 0\.5; got 2\.0"):
        agent.update(others.get(way, {decision.picks[0]: 2.0}), 1)
    assert worlds.held(agent) == held


def test_items_are_kept_as_values() -> None:
    """An older value does not see what is added to a newer one, however many items there are."""
    values, numbers = [Remembered()], dict[int, int]()
    for step in range(60):
        items = {key(step, at): step - at for at in range(200)}
        numbers |= items
        values.append(values[-1].plus(items))
    twin = values[30].plus({key("twin"): 5})
    for n, value in enumerate(values):
        for step in (0, 20, n - 1, n, 59):
            expected = step - 7 if 0 <= step < n else None
            assert value.get(key(step, 7)) == expected
        assert value.get(key("twin")) is None
    assert twin.get(key("twin")) == 5
    again = Remembered.restored(values[-1].state())
    assert all(again.get(hashed) == number for hashed, number in numbers.items())


def test_the_settings_that_differ_from_a_log_are_named(tmp_path: Path) -> None:
    """One by one, with both values."""
    log = tmp_path / "log.jsonl"
    policy = {"name": "fair_greedy", "selector": {"name": "epsilon_greedy", "epsilon": 0.2}}
    Agent.from_config(policy, features=2, groups=["a"], log=log).close()
    policy["selector"] = {"name": "epsilon_greedy", "epsilon": 0.1}
    message = (
        r"policy.selector.epsilon is 0.2 in the log and 0.1 now; "
        r"seed is 0 in the log and 3 now\. To go on"
    )
    with pytest.raises(FairbanditError, match=message):
        Agent.from_config(policy, features=2, groups=["a"], log=log, seed=3)
