"""A log played by live calls, by a replay, by loading and by a merge gives one state."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import Agent
from fairbandit.agent import replay
from tests.agent import worlds

ROLLING = {"split": "halves", "estimator": "ridge", "rank": "recent_cdf", "selector": "rolling"}
CONFIGS: list[Any] = ["fair_greedy", "oful", "lin_ts", "minimum_pull", ROLLING]

CALLS = ("act", "act", "many", "update", "update", "drop", "taken", "observe", "open", "offer")


def call(agent: Agent, kind: str, draw: random.Random) -> None:
    """One random call; calls that the agent has nothing for do nothing."""
    labels = ["a", 7, ("x", 1), "late"][: 1 + agent.rounds // 5]

    def pool(k: int) -> tuple[Any, Any]:
        return [[draw.gauss(0, 1) for _ in range(3)] for _ in range(k)], draw.choices(labels, k=k)

    waiting = [*agent._ledger.state.waiting.items()]
    ticket, decision = draw.choice(waiting) if waiting else (0, None)
    if kind == "act":
        agent.act(*pool(draw.randint(1, 4)), draw.choice([1, 1, 2]))
    elif kind == "many":
        pools = [pool(draw.choice([2, 3])) for _ in range(draw.randint(2, 6))]
        agent.act_many([x for x, _ in pools], [groups for _, groups in pools])
    elif kind == "observe":
        agent.observe([pool(2)[0]], [pool(2)[1]], [1], [draw.gauss(0, 1)])
    elif kind == "open" and "rolling" in str(agent.policy) and len(agent.openings) < 2:
        agent.round(f"{agent.rounds} {draw.random()}", places=2, candidates=4)
    elif kind == "offer" and agent.openings:
        opening = agent.round(draw.choice(agent.openings))
        x, groups = pool(1)
        offer = opening.offer(x[0], groups[0])
        if offer.taken and draw.random() < 0.5:
            agent.update(1.0, offer.ticket, offer.candidate)
        if draw.random() < 0.4:
            opening.close()
    elif decision and kind == "update" and decision.open:
        agent.update({place: draw.gauss(0, 1) for place in decision.open[:1]}, ticket)
    elif decision and kind == "drop":
        agent.drop(ticket)
    elif decision and kind == "taken":
        free = [k for k in range(len(decision.codes)) if k not in decision.places]
        places = decision.recommended or decision.open
        agent.taken(ticket, draw.choice([*free, places[0]]), places[0])


@settings(max_examples=25, deadline=None)
@given(
    config=st.sampled_from(CONFIGS),
    kinds=st.lists(st.sampled_from(CALLS), min_size=5, max_size=40),
    seed=st.integers(0, 2**32),
    shadow=st.booleans(),
    patience=st.sampled_from([None, 6]),
)
def test_one_state(
    config: Any, kinds: list[str], seed: int, shadow: bool, patience: int | None
) -> None:
    """To the last bit: openings, taken people, late rewards and new groups included."""
    draw = random.Random(seed)
    options: Any = {"features": 3, "groups": ["a"], "patience": patience}
    with tempfile.TemporaryDirectory() as name:
        log, first, middle = (Path(name) / file for file in ("log", "first", "middle"))
        Agent.from_config(config, **options, shadow=shadow and config != ROLLING).save(first)
        agent = Agent.load(first, log=log)
        for number, kind in enumerate(kinds):
            if number == len(kinds) // 2:
                agent.save(middle)
            call(agent, kind, draw)
        held = worlds.held(agent)
        agent.close()
        assert replay(log, first).sha256 == agent.log_hash
        for file in (first, middle):
            with Agent.load(file, log=log) as loaded:
                assert worlds.held(loaded) == held
            assert worlds.held(Agent.merge(file, [log])) == held


def test_a_log_that_is_cut_off_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As by a crash: the agent goes on after the last complete line, and writes over the rest."""
    log, first, draw = tmp_path / "log", tmp_path / "first", random.Random(0)
    Agent.from_config("fair_greedy", features=3, groups=["a"]).save(first)
    with Agent.load(first, log=log) as agent:
        header = log.stat().st_size
        for kind in ("act", "act", "taken", "update", "act"):
            call(agent, kind, draw)
        states, ends = [worlds.held(agent)], [log.stat().st_size]
        for kind in ("act", "update"):
            call(agent, kind, draw)
            states.append(worlds.held(agent))
            ends.append(log.stat().st_size)
    whole = log.read_bytes()
    for size in {*range(ends[0], ends[2], 7), *ends, ends[1] - 1, ends[2] - 1}:
        log.write_bytes(whole[:size])
        caplog.clear()
        with Agent.load(first, log=log) as agent:
            assert worlds.held(agent) == states[sum(end <= size for end in ends[1:])]
            assert ("is cut off and left out" in caplog.text) == (size not in ends)
            agent.act(np.ones((2, 3)), ["a", "b"])
        assert replay(log, first).lines > 5
    log.write_bytes(whole[: header - 20])
    with Agent.load(first, log=log) as agent:
        assert agent.rounds == 0
