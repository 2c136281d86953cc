"""Files that are damaged, or crafted with right checksums: agents, checkpoints, runs and logs.

A file whose bytes were damaged must be refused, or give exactly what the whole file gives. An agent
or a log that was crafted may be accepted where its content makes sense, and must be refused where
not; what is accepted must serve whatever is asked of it next.
"""

import json
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fairbandit import Agent, evaluate, read_log
from fairbandit.agent.replaying import replay
from fairbandit.errors import FairbanditError
from fairbandit.logs import chain, erase
from fairbandit.runs import read_runs
from fairbandit.runs.execute import execute
from tests.agent import worlds
from tests.fuzz.values import crafted, damaged
from tests.killing import cut_off, outcome

RUN: dict[str, Any] = {"policy": {"name": "greedy"}, "environment": {"name": "simulation"}}
RUN |= {"rounds": 260, "replicas": 2}
"""The second piece of its rounds is short."""


@patch("fairbandit.runs.execute.BUDGET", 1)  # each replica is a batch
def files(draw: random.Random, folder: Path) -> None:
    """Every kind of file that the package reads back."""
    damages = [_damaged_agent, _damaged_run, _damaged_checkpoint]
    crafts = [_crafted_log]
    draw.choice([*damages, *crafts])(draw, folder)


@cache
def _whole() -> Path:
    """A folder with three agents, a finished run and one that was cut off."""
    folder = Path(_kept().name)
    for config in ("fair_greedy", "oful", "greedy"):
        options: dict[str, Any] = {"groups": ["a", ("b", 1), None], "refresh": 1.5, "patience": 9}
        agent = Agent.from_config(config, features=2, seed=0, **options)
        for t in range(12):
            agent.act([[t, 1.0], [0.5, -t], [t / 3, 2.0]], ["a", ("b", 1), "late"])
            if t % 3:
                agent.update(t / 7)
        agent.save(folder / f"{config}.agent")
    agent = Agent.from_config("greedy", features=2, seed=0, log=folder / "log.jsonl")
    for t in range(6):
        agent.act([[t, 1.0], [0.5, -t]], ["a", ("b", 1)], 1 + t % 2)
        agent.update(t / 7 if t % 2 == 0 else [1.0, 2.0])
    agent.observe([[[1.0, 2.0], [0.0, 1.0]]], [["a", "c"]], [1], [0.5])
    execute(RUN, folder / "run", progress=False)
    cut_off(RUN, folder / "cut", 3)
    return folder


@cache
def _kept() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory()  # removed when the process ends


def _some_agent(draw: random.Random) -> Path:
    return draw.choice(sorted(_whole().glob("*.agent")))


def _damaged_agent(draw: random.Random, folder: Path) -> None:
    whole, path = _some_agent(draw), folder / "agent"
    path.write_bytes(damaged(draw, whole.read_bytes()))
    assert worlds.held(Agent.load(path)) == worlds.held(Agent.load(whole))


def _changed(draw: random.Random, content: Any) -> Any:
    """The data with one place crafted, or up to three."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        content = crafted(draw, content)
    return content


def _damaged_run(draw: random.Random, folder: Path) -> None:
    """One file of a finished run damaged."""
    run = folder / "run"
    shutil.copytree(_whole() / "run", run)
    path = draw.choice([*run.rglob("*.parquet"), run / "summary.json"])
    path.write_bytes(damaged(draw, path.read_bytes()))
    found, right = ([one.summary for one in read_runs([at])] for at in (run, _whole() / "run"))
    assert found == right, f"a damaged {path.name} gives other values"


def _crafted_log(draw: random.Random, folder: Path) -> None:
    """An agent's log of which some lines are crafted, the chain of hashes being right."""
    path, end, data = folder / "log.jsonl", chain.Position(), b""
    records = [json.loads(line) for line in (_whole() / "log.jsonl").read_text().splitlines()]
    for record in _changed(draw, records):
        if not isinstance(record, dict):
            raise FairbanditError("no line")
        kept = {key: record[key] for key in record if key not in ("previous", "sha256")}
        line, end = chain.chained(json.dumps(kept).encode()[:-1], end)
        data += line
    path.write_bytes(data)
    refusals = list[FairbanditError]()
    for use in (
        lambda: replay(path),
        lambda: evaluate(read_log(path), ["uniform"], adaptive=False),
        lambda: erase(path, folder / "less.jsonl", [2]),
        lambda: Agent.from_config("greedy", features=2, seed=0, log=path),
    ):
        try:
            use()
        except FairbanditError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


def _damaged_checkpoint(draw: random.Random, folder: Path) -> None:
    """A run that goes on beside a damaged checkpoint."""
    run = folder / "run"
    shutil.copytree(_whole() / "cut", run)
    (path,) = run.rglob("checkpoint*")
    path.write_bytes(damaged(draw, path.read_bytes()))
    execute(RUN, run, progress=False)
    assert outcome(run) == outcome(_whole() / "run")
