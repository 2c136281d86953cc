"""Ids of callers, and rewards that are reported twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairbandit import Agent, FairbanditError
from fairbandit.agent import explain, replay
from fairbandit.logs import erase, own_lines, read_log
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
    read = read_log(log)
    assert read.ids is not None
    assert read.about is not None
    assert read.ids.tolist() == [None, "application 7", "application 8"]
    assert read[[2, 1]].about.tolist() == [{}, about]  # type: ignore[union-attr]
    assert str(explain(log, "application 8")) == str(explain(log, 3))
    with pytest.raises(FairbanditError, match="lacks a decision of ticket 'application 9'"):
        explain(log, "application 9")
    assert erase(log, tmp_path / "erased.jsonl", ["application 7", 3, "application 9"]) == 2
    assert read_log(tmp_path / "erased.jsonl").names == [1]


def agent_of(log: Path) -> Agent:
    return Agent.from_config("fair_greedy", features=2, log=log)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": 7}, r"id: expected a text, as in str\(id\), got 7"),
        ({"id": ""}, "id: expected a text"),
        ({"about": {"a": [1]}}, "about: "),
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
