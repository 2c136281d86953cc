"""Agents go on from their files as if never stopped; other files are refused."""

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent, FairbanditError, registry
from tests import support
from tests.agent import saver, worlds

CONFIGS: dict[str, dict[str, Any]] = {
    **worlds.deployable(support.PRESETS),
    **{
        f"{rank} {refresh}": {
            **{"split": "halves", "estimator": "ridge", "rank": rank, "refresh": refresh},
            "selector": {"name": "minimum_pull", "shares": 0.1},
        }
        for rank in ("empirical_cdf", "recent_cdf", "noisy_rewards_cdf")
        for refresh in (None, 1.5)
    },
}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_agent_goes_on(name, tmp_path):
    """Late rewards of earlier rounds, labels of every kind, groups that appear afterwards."""
    pieces = worlds.spans(worlds.stories(9, 80, delay=12), 16, 32, 48, 64)
    whole, agent = (Agent.from_config(CONFIGS[name], features=3, patience=60) for _ in range(2))
    for piece in pieces:
        agent.save(tmp_path / "agent")
        agent = Agent.load(tmp_path / "agent")
        for one in (whole, agent):
            for ticket in one.pending[::3]:
                one.update(ticket / 7, ticket)
        assert worlds.live(agent, piece) == worlds.live(whole, piece)
        assert worlds.held(agent) == worlds.held(whole)
    assert len(agent.pending) > 5
    for how in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(FairbanditError, match="cannot be copied or pickled"):
            how(agent)


def test_labels_that_no_file_holds(tmp_path):
    agent, path = Agent.from_config("greedy", features=1, groups=["a"]), tmp_path / "agent"
    agent.save(path)
    before = path.read_bytes()
    agent.act([[1.0]], [("a", frozenset({1}))])
    with pytest.raises(FairbanditError, match=r"groups\[1\]\[1\] cannot be saved.* frozenset"):
        agent.save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_labels_that_files_hold(tmp_path):
    labels = ["é", 10**30, -1, 0.5, float("inf"), "unknown", (), ("a", (1, "unknown")), True]
    agent = Agent.from_config("greedy", features=3, groups=[*labels, np.str_("z"), np.int8(9)])
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent").groups
    assert again == agent.groups == (*labels, "z", 9)
    assert list(map(type, again)) == [*map(type, labels), str, int]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    agent = Agent.from_config("fair_greedy", features=3)
    worlds.live(agent, worlds.stories(1, 30))
    agent.save(tmp_path / "agent")
    return tmp_path / "agent"


def test_every_way_to_be_cut_short_or_damaged(file):
    whole = file.read_bytes()
    step = len(whole) // 50
    for at in [*range(0, len(whole), step), len(whole) - 1]:
        flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        for content in (whole[:at], flipped):
            file.write_bytes(content)
            with pytest.raises(FairbanditError, match="not a complete agent file"):
                Agent.load(file)
    for foreign in (b"", b"\x00" * 100, pickle.dumps({"a": 1}), b'{"version": 1}'):
        file.write_bytes(foreign)
        with pytest.raises(FairbanditError, match=r"not a complete agent file .*Agent.save"):
            Agent.load(file)
    file.write_bytes(whole)
    Agent.load(file)


OPTIONS: dict[str, Any] = {"groups": []}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: saved.pop("format"), r"not a complete agent file .* \(KeyError"),
        (lambda saved: saved.update(version=1), r"\('fairbandit.Agent', 1\), not"),
        (lambda saved: saved.update(options=OPTIONS), r"not a complete .* at `\$\.options"),
        (lambda saved: saved["options"].update(groups="ab"), "not a complete agent file"),
        (lambda saved: saved.update(workers=[[0, 1, 2, [1, "0", 2]]]), "not a complete agent file"),
        (lambda saved: saved["known"].update(state=torch.zeros(1)), "not a complete agent file"),
    ],
)
def test_a_crafted_agent_with_a_right_digest_is_refused_when_it_is_loaded(
    change: Any, message: str, file: Path
) -> None:
    saved = support.read_state(file)
    change(saved)
    support.write_state(saved, file)
    with pytest.raises(FairbanditError, match=message):
        Agent.load(file)


def test_a_file_of_something_else_makes_nothing(
    tmp_path: Path, file: Path, monkeypatch: Any
) -> None:
    """The environments that a file may name read, make folders and fetch."""
    saved = support.read_state(file)
    for name in registry.names("environment"):
        kind = registry.lookup("environment", name)
        monkeypatch.setattr(kind, "__init__", lambda *_, **__: pytest.fail("made"))
        saved["config"] = {"name": name}
        support.write_state(saved, file)
        with pytest.raises(FairbanditError, match=r"expected a policy, got \{'name'"):
            Agent.load(file)
    assert [one.name for one in tmp_path.iterdir()] == ["agent"]


def test_files_that_are_not_there(tmp_path):
    agent = Agent.from_config("greedy", features=1)
    for path in (tmp_path / "no" / "agent", tmp_path):
        with pytest.raises(FairbanditError, match=f"cannot load an agent from {path}: "):
            Agent.load(path)
        with pytest.raises(FairbanditError, match=f"cannot save the agent to {path}: "):
            agent.save(path)


@pytest.mark.all
def test_killed_while_saving_it_goes_on_from_the_last_whole_save(tmp_path):
    """`python -m tests.torture` kills more."""
    rounds, _ = saver.kill(tmp_path / "agent", 10)
    assert rounds >= 10


def test_nothing_is_left_beside(tmp_path: Path, monkeypatch: Any) -> None:
    agent = Agent.from_config("greedy", features=1)
    agent.save(tmp_path / "agent")
    before = (tmp_path / "agent").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FairbanditError, match="agent: No space left on device"):
        agent.save(tmp_path / "agent")
    assert (tmp_path / "agent").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
