"""Damaged files: agents, checkpoints, summaries, row files; and agents and summaries of a stranger.

A file whose bytes were damaged must be refused, or give exactly what the whole file gives. A file
that was crafted may be accepted where its content makes sense, and must be refused where not.
"""

import json
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from fairbandit import Agent
from fairbandit.results import read_runs
from fairbandit.run.execute import execute
from tests.agent import worlds
from tests.fuzz.values import crafted, damaged
from tests.killing import cut_off, outcome

RUN: dict[str, Any] = {"policy": {"name": "greedy"}, "environment": {"name": "simulation"}}
RUN |= {"rounds": 260, "replicas": 2}
"""The second piece of its rounds is short."""


def files(draw: random.Random, folder: Path) -> None:
    """Every kind of file that the package reads back."""
    draw.choice([_damaged_agent, _run_folder, _checkpoint])(draw, folder)


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
    execute(RUN, folder / "run", progress=False)
    cut_off(RUN, folder / "cut", 1)
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


def _run_folder(draw: random.Random, folder: Path) -> None:
    """One file of a finished run damaged, or its summary crafted."""
    run = folder / "run"
    shutil.copytree(_whole() / "run", run)
    path = draw.choice([*run.rglob("*.parquet"), run / "summary.json"])
    was_crafted = path.suffix == ".json" and draw.random() < 0.7
    if was_crafted:
        path.write_text(json.dumps(crafted(draw, json.loads(path.read_text()))))
    else:
        path.write_bytes(damaged(draw, path.read_bytes()))
    found, right = ([one.summary for one in read_runs([at])] for at in (run, _whole() / "run"))
    assert was_crafted or found == right, f"a damaged {path.name} gives other values"


def _checkpoint(draw: random.Random, folder: Path) -> None:
    """A run that goes on beside a damaged checkpoint."""
    run = folder / "run"
    shutil.copytree(_whole() / "cut", run)
    (path,) = run.rglob("checkpoint*")
    path.write_bytes(damaged(draw, path.read_bytes()))
    execute(RUN, run, progress=False)
    assert outcome(run) == outcome(_whole() / "run")
