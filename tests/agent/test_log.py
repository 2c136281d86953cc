"""The log of an agent: what is written is what happened, whatever interrupts it."""

from __future__ import annotations

import errno
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from msgspec import structs

from fairbandit import Agent, Encoder, FairbanditError
from fairbandit.agent.replaying import replay
from fairbandit.cli.main import main
from fairbandit.logs import chain, erase, own_lines, read_log
from fairbandit.logs.events import Decided, Rewarded, body_of
from fairbandit.notices import noted
from tests.agent import worlds
from tests.agent.test_interrupts import Lines, broken_off
from tests.docs.pages import DOCS, Page

CONFIG: dict[str, Any] = {
    "name": "fair_greedy",
    "selector": {"name": "epsilon_greedy", "epsilon": 0.2},
}


def begun(path: Path, **options: Any) -> Agent:
    return Agent.from_config(CONFIG, features=3, groups=["a"], log=path, **options)


def serve(agent: Agent, rounds: int, seed: int = 0) -> None:
    """Decides some pools, with rewards that come late, and groups that are new."""
    draws = np.random.default_rng([seed, agent.rounds])
    for _ in range(rounds):
        k = int(draws.integers(1, 6))
        agent.act(draws.normal(size=(k, 3)), draws.choice(["a", "b", "c"], k).tolist())
        if agent.pending and draws.uniform() < 0.7:
            agent.update(float(draws.normal()), int(draws.choice(agent.pending)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def test_every_line_is_confirmed(log: Path, tmp_path: Path) -> None:
    """A service that was saved, killed and begun again, from the file and from the log alone."""
    agent = begun(log)
    serve(agent, 30)
    agent.save(tmp_path / "agent.pt")
    serve(agent, 20)
    agent.observe([[[1.0, 2.0, 3.0]]], [[("new", 1)]], [0], [2.0])
    agent.drop(agent.pending[0])
    held = worlds.held(agent)
    del agent
    for saved in (True, False):
        agent = Agent.load(tmp_path / "agent.pt", log=log) if saved else begun(log)
        assert worlds.held(agent) == held
        del agent
    agent = Agent.load(tmp_path / "agent.pt", log=log)
    serve(agent, 5)
    found = replay(log)
    assert found.sha256 == agent.log_hash == list(own_lines(log))[-1].at.sha256
    assert (found.decisions, found.lines) == (55, log.read_bytes().count(b"\n"))
    read = read_log(log)
    assert len(read) == 55
    assert list(read.names) == [t for t in range(1, 57) if t != 51]
    logged = read.probabilities
    assert logged is not None
    chances = read.at_picks(logged)
    assert (chances == read.propensities).all()
    assert read.adaptive


def test_one_flipped_bit_anywhere_is_named(log: Path, tmp_path: Path) -> None:
    serve(begun(log), 12)
    whole, draws, damaged = log.read_bytes(), random.Random(0), tmp_path / "damaged.jsonl"
    for at in draws.sample(range(len(whole)), 40):
        changed = bytearray(whole)
        changed[at] ^= 1 << draws.randrange(8)
        damaged.write_bytes(changed)
        number = whole[:at].count(b"\n") + 1
        with pytest.raises(FairbanditError, match=rf"line {number}\b|not a log of an agent"):
            replay(damaged)
    lines = whole.splitlines(keepends=True)
    for other in (lines[:4] + lines[5:], [*lines[:4], lines[5], lines[4]], [*lines, lines[3]]):
        damaged.write_bytes(b"".join(other))
        with pytest.raises(FairbanditError, match="is missing before it, or was added"):
            replay(damaged)


def test_a_line_that_was_written_otherwise_is_named(log: Path, tmp_path: Path) -> None:
    """Whoever makes new hashes cannot make another decision."""
    serve(begun(log), 12)
    for kind, changes in (
        (Decided, {"picks": (0,)}),
        (Decided, {"picks": (0, 1, 2)}),
        (Decided, {"probabilities": [1.0]}),
        (Decided, {"ticket": 99}),
        (Rewarded, {"ticket": 99}),
    ):
        at, forged = chain.Position(), []
        number = [
            line.at.line
            for line in own_lines(log)
            if isinstance(line.event, kind)
            and any(getattr(line.event, key) != value for key, value in changes.items())
        ][3]
        for line in own_lines(log):
            event = structs.replace(line.event, time=None, previous=None)
            event = structs.replace(event, **changes) if line.at.line == number else event
            data, at = chain.chained(body_of(event), at, line.event.time)
            forged.append(data)
        path = tmp_path / "forged.jsonl"
        path.write_bytes(b"".join(forged))
        with pytest.raises(FairbanditError, match=rf"line {number}\b"):
            replay(path)


def broken_calls(agent: Agent) -> list[Callable[[], object]]:
    x = np.arange(6.0).reshape(2, 3)
    return [
        lambda: agent.act(x, ["a", "new"]),
        lambda: agent.update(2.0),
        lambda: agent.act(x, ["b", "a"]),
        lambda: agent.drop(agent.pending[-1]),
        lambda: agent.observe([x], [["a", "newer"]], [1], [1.0]),
    ]


def ready(path: Path) -> Agent:
    """An agent with decisions that wait for a reward."""
    agent = begun(path)
    serve(agent, 3)
    for _ in range(2):
        agent.act(np.ones((2, 3)), ["a", "b"])
    return agent


def test_interrupted_anywhere(log: Path) -> None:
    """Agent and log agree: the call has left a whole line and taken effect, or neither."""
    draws, whole = random.Random(0), 0
    for number in range(5):
        for time in range(2):  # the second time, labels are in caches, as in all trials
            with Lines() as counted:
                one = ready(log.with_name(f"count{number}-{time}"))
                counted.count = 0
                broken_calls(one)[number]()
        for trial in range(6):
            path = log.with_name(f"{number}-{trial}.jsonl")
            agent = ready(path)
            before = sum(1 for _ in own_lines(path))
            first = draws.choice([1, counted.count - 20])  # every other time near the commit
            at = draws.randint(first, counted.count)
            assert broken_off(broken_calls(agent)[number], Lines(at))
            agent.pending  # noqa: B018 - the next call finishes what is left
            after = sum(1 for _ in own_lines(path))
            whole += after > before
            serve(agent, 2)
            held = worlds.held(agent)
            replay(path)
            del agent
            assert worlds.held(begun(path)) == held
    assert whole > 0


def test_a_full_disk_changes_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = begun(log)
    serve(agent, 4)
    held, whole, write = worlds.held(agent), log.read_bytes(), os.write

    def part(file: int, data: bytes) -> int:
        return write(file, data[:7])

    def none(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for full in (part, none):
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(FairbanditError, match="No space left"):
            agent.act(np.ones((2, 3)), ["a", "new"])
        monkeypatch.undo()
        assert worlds.held(agent) == held
        assert log.read_bytes() == whole
    serve(agent, 2)
    replay(log)


def test_whose_log_it_is(log: Path, tmp_path: Path) -> None:
    agent = begun(log)
    serve(agent, 3)
    child = os.fork()
    if child == 0:
        try:
            agent.act(np.ones((2, 3)), ["a", "b"])
        except FairbanditError as error:
            os._exit(0 if "belongs to the process" in str(error) else 2)
        os._exit(3)
    assert os.waitpid(child, 0)[1] == 0
    serve(agent, 2, seed=1)
    agent.close()
    with pytest.raises(FairbanditError, match="not the log that this agent wrote"):
        Agent.from_config("greedy", features=3, groups=["a"], log=log)
    other = begun(tmp_path / "other.jsonl", seed=1)
    serve(other, 3)
    other.save(tmp_path / "other.pt")
    with pytest.raises(FairbanditError, match="not the log that this agent wrote"):
        Agent.load(tmp_path / "other.pt", log=log)


def test_an_agent_that_went_on_without_its_log(log: Path, tmp_path: Path) -> None:
    """It is refused, whether it decided, learned or dropped; if it did nothing, it goes on."""
    agent, saved = begun(log), tmp_path / "agent.pt"
    serve(agent, 5)
    agent.act(np.ones((2, 3)), ["a", "b"])
    agent.save(saved)
    for further in (serve, lambda one, _: one.update(1.0), lambda one, _: one.drop(one.pending[0])):
        one = Agent.load(saved)
        one.explain(np.ones((2, 3)), ["a", "b"])
        one.observe([], [], [], [])
        assert one.log_hash == agent.log_hash
        further(one, 3)
        one.save(tmp_path / "other.pt")
        with pytest.raises(FairbanditError, match="another agent appends to"):
            Agent.load(tmp_path / "other.pt", log=log)
        whole, agent = log.read_bytes(), None  # type: ignore[assignment]
        with pytest.raises(FairbanditError, match="has decided or learned without it"):
            Agent.load(tmp_path / "other.pt", log=log)
        assert log.read_bytes() == whole
        agent = Agent.load(saved, log=log)
    serve(agent, 2)
    replay(log)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_one_log_by_two_names(log: Path, tmp_path: Path, link: Any) -> None:
    agent = begun(log)
    serve(agent, 2)
    link(log, tmp_path / "current.jsonl")
    with pytest.raises(FairbanditError, match="another agent appends to"):
        begun(tmp_path / "current.jsonl")
    serve(agent, 1)
    del agent
    serve(begun(tmp_path / "current.jsonl"), 1)
    replay(log)


def added(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: os.truncate(log, 0),
        lambda log: os.truncate(log, log.stat().st_size - 5),
        lambda log: log.rename(log.with_name("log.1")),
        lambda log: (log.rename(log.with_name("log.1")), log.touch()),
        lambda log: added(log, b"a note\n"),
        lambda log: added(log, log.read_bytes().splitlines(keepends=True)[-1]),
    ],
)
def test_a_log_that_another_program_changed(log: Path, change: Callable[[Path], Any]) -> None:
    """Nothing is decided, and the file stays as the other program left it."""
    agent = begun(log)
    serve(agent, 3)
    before = worlds.held(agent)
    change(log)
    left = {path: path.read_bytes() for path in log.parent.iterdir()}
    for _ in range(2):
        with pytest.raises(FairbanditError, match="nothing was decided: "):
            agent.act(np.ones((2, 3)), ["a", "new"])
    assert worlds.held(agent) == before
    assert {path: path.read_bytes() for path in log.parent.iterdir()} == left


def test_a_text_is_not_overwritten(log: Path) -> None:
    """A file without a newline is a log that was cut off only if it begins as a line does."""
    log.write_text("notes of a meeting")
    with pytest.raises(FairbanditError, match="line 1"):
        begun(log)
    assert log.read_text() == "notes of a meeting"


def test_a_fork_and_the_lock(log: Path) -> None:
    """A child neither frees the lock of its parent nor keeps it when the parent gives it back."""
    agent = begun(log)
    serve(agent, 2)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        del agent
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(FairbanditError, match="another agent appends to"):
        begun(log)
    serve(agent, 1)
    del agent
    serve(begun(log), 1)
    os.write(go[1], b"x")
    assert os.waitpid(child, 0)[1] == 0
    replay(log)


def test_a_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    """It is refused, and no reader waits for it."""
    os.mkfifo(pipe := tmp_path / "pipe.jsonl")
    for opens in (read_log, replay, Agent.load, begun):
        with pytest.raises(FairbanditError, match="not a regular file"):
            opens(pipe)


def test_a_loaded_agent_begins_a_new_log(tmp_path: Path, capsys: Any) -> None:
    """Its header holds the hash of the file; a folder takes a file for each."""
    agent = begun(tmp_path / "first.jsonl")
    serve(agent, 5)
    agent.save(tmp_path / "agent.pt")
    held = worlds.held(agent, log=False)
    for _ in range(2):
        one = Agent.load(tmp_path / "agent.pt", log=f"{tmp_path}/logs/")
        assert worlds.held(one, log=False) == held
        serve(one, 4)
    files = sorted((tmp_path / "logs").glob("*.jsonl"))
    assert len(files) == 2
    assert len(read_log(tmp_path / "logs")) == 8
    with pytest.raises(FairbanditError, match="goes on from a saved agent"):
        replay(files[0])
    main(["replay", str(files[0]), f"agent={tmp_path}/agent.pt"])
    assert "are as written: 4 decisions" in capsys.readouterr().out
    agent.save(tmp_path / "later.pt")
    serve(agent, 1)
    agent.save(tmp_path / "later.pt")
    with pytest.raises(FairbanditError, match=r"goes on from a saved agent .*; got .* of SHA-256"):
        replay(files[0], tmp_path / "later.pt")


def test_it_goes_on_from_the_file_beside_its_log(log: Path, monkeypatch: Any) -> None:
    """Of the state that it saved there last; the log alone gives the same state."""
    beside, repeats = log.with_name("log.jsonl.agent"), "{}: the agent repeats {} lines, and goes "
    with begun(log, save_every=10) as agent:
        serve(agent, 30)
        held = worlds.held(agent)
    n, whole = log.read_bytes().count(b"\n") - 1, beside.read_bytes()
    with begun(log.with_name("other"), save_every=10, seed=1) as other:
        serve(other, 30)
    of_other = log.with_name("other.agent").read_bytes()
    for content, options, repeated in (
        (whole, {"save_every": 1000}, n % 10),
        (whole, {}, n),
        (of_other, {"save_every": 1000}, n),
        (whole[:-1], {"save_every": 1000}, n),
    ):
        beside.write_bytes(content)
        with noted() as notes, begun(log, **options) as agent:
            assert worlds.held(agent) == held
        assert notes[-1].startswith(repeats.format(log, repeated))
        damaged = "not a complete agent file .*; the agent repeats its log without this file"
        assert bool(re.search(damaged, notes[0])) == (content == whole[:-1])
    with begun(log, save_every=1) as agent, noted() as notes:
        monkeypatch.setattr(os, "fsync", lambda _: os.write(-1, b""))
        serve(agent, 1)
        assert "cannot save the agent to" in notes[0]
    replay(log)
    with pytest.raises(FairbanditError, match="save_every: expected a log"):
        Agent.from_config(CONFIG, features=3, save_every=10)


def test_a_service_after_a_change_says_what_the_tutorial_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pupils = [{"school": "HL"[n % 2], "hours": n, "absent": n % 3, "grade": n} for n in range(40)]

    def begin(epsilon: float, n: int) -> Path:
        policy = {**CONFIG, "selector": {"name": "epsilon_greedy", "epsilon": epsilon}}
        encoder = Encoder.from_table(pd.DataFrame(pupils[:n]), group="school", reward="grade")
        Agent.from_config(policy, features=encoder).save("agent.pt")
        return Path("agent.pt")

    messages = list[str]()
    with Agent.load(begin(0.2, 39), log="decisions.jsonl") as agent:
        agent.act(pupils[:3])
        for settings in ((0.2, 39), (0.1, 39), (0.2, 40)):
            with pytest.raises(FairbanditError) as raised:
                Agent.load(begin(*settings), log="decisions.jsonl")
            messages.append(str(raised.value))
            agent.close()
    page = Page(DOCS / "tutorials" / "service.md").text
    for message, words in zip(
        messages, ("another agent", "policy", "the encoder was"), strict=True
    ):
        (shown,) = re.findall(rf"`({words}.*?)`", page)
        assert shown in message


def test_contexts_left_out_and_decisions_erased(log: Path, tmp_path: Path) -> None:
    serve(begun(log, log_contexts=False, fsync=True), 6)
    assert read_log(log).contexts is None
    with pytest.raises(FairbanditError, match="line 2: contexts are left out"):
        replay(log)
    whole = tmp_path / "whole.jsonl"
    serve(begun(whole), 20)
    assert erase(whole, tmp_path / "erased.jsonl", [3, 4, 99]) == 2
    before, after = read_log(whole), read_log(tmp_path / "erased.jsonl")
    assert [*after.names] == [t for t in before.names if t not in (3, 4)]
    with pytest.raises(FairbanditError, match="decisions were erased"):
        replay(tmp_path / "erased.jsonl")
