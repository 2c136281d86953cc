"""Hostile command lines, in this process: runs, sweeps, flags and tools.

A command succeeds, or ends with one message. It may not show a traceback, or change anything but
its own outputs: a finished run beside them and torch's settings stay as they are.
"""

import contextlib
import io
import json
import math
import os
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fairbandit import registry
from fairbandit.cli.main import main
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.runs.execute import execute
from tests.fuzz.values import TEXTS

SMALL = {"rounds": ("1", "2", "12"), "replicas": ("1", "2")}
"""Values that are right and cost little: a sound long run is no fault."""

SIZES = ("0", "-1", "9223372036854775808", "10000000000000000000000000", "1e3")
"""Numbers that no size may be, for keys whose sound values could take long."""

SOUND = (
    *("policy=oful", "policy=fair_greedy", "policy=gmf", "policy/rank=shrunk_cdf", "seed=3"),
    *("policy.estimator.regularization=0.01", "environment.cdf=sampled", "policy=oful,greedy"),
    *("seed=0,1", "resume=false", "hydra.run.dir=kept", "hydra.sweep.dir=swept", "figures=[price]"),
)
"""Words that are right by themselves; some need -m."""

KEYS = (
    *("rounds", "replicas", "seed", "device", "threads", "resume", "figures", "policy", "nope"),
    *("policy.name", "policy/split", "policy/estimator", "policy/rank", "policy/selector"),
    *("policy.estimator.regularization", "policy.estimator.noise", "policy.estimator.radius"),
    *("policy.rank.size", "policy.rank.alpha", "policy.rank", "policy.split", "environment"),
    *("environment.noise", "environment.groups", "environment.theta", "environment.weights"),
    *("environment.path", "environment.columns", "environment.root", "environment.name"),
    *("experiment", "", "_target_", "a.b.c", "policy@other", "hydra.run.dir", "hydra.sweep.dir"),
)

FLAGS = ("--help", "--version", "--cfg", "--cfg=job", "--resolve", "-m", "--nope", "-cn", "--", "-")

TOOLS = ("collect", "check", "figures", "theory", "audit", "report", "nope", "")

TOOL_WORDS = (
    *("kept", "nothing", ".", "", "kept/summary.json", "out=x.csv", "x.txt", "only=overview", "="),
    *(
        "overview",
        "nope",
        "--level",
        "0.5",
        "plan=true",
        "--help",
        "--nope",
        "rank=recent_cdf",
        "\x00",
    ),
    *("against=greedy", "by=group", "policy=greedy", "columns=cost_per_pick", "by=x"),
    *("rank.size=[", "rank.size=0", "rank=nope", "environment=simulation", "delta=0.1", "a="),
)

RUN: dict[str, Any] = {"policy": {"name": "greedy"}, "environment": {"name": "simulation"}}
RUN |= {"rounds": 12, "replicas": 2}


def commands(draw: random.Random, folder: Path) -> None:
    """The console script, in a folder with a finished run."""
    place = folder / "a" / "b"
    place.mkdir(parents=True)
    execute(RUN, place / "kept", progress=False)
    words, before = _words(draw), _state(place)
    with _inside(place):
        code, said = _run(words)
    told = f"{words!r}: exit code {code}\n{said[-2000:]}"
    assert "Traceback" not in said, told
    assert code in (0, 1, 2), told
    assert _state(place) == before, f"the finished run or a setting changed: {told}"
    assert [path.name for path in folder.iterdir()] == ["a"], f"written above its folder: {told}"
    if code:
        assert PREFIX in said or "usage:" in said or "error" in said.lower(), f"no message: {told}"
        raise FairbanditError(said[-500:])
    for path in place.rglob("summary.json"):
        summary = json.loads(path.read_text())
        picked = math.fsum(group["mean"] for group in summary["selected"].values())
        assert round(picked, 6) == summary["rounds"], told


def _words(draw: random.Random) -> list[str]:
    if draw.random() < 0.25:
        return [draw.choice(TOOLS), *draw.choices(TOOL_WORDS, k=draw.randint(0, 4))]
    words = draw.choice([[], [], ["-m"], [draw.choice(FLAGS)]])
    words = [*words, *draw.choices(SOUND, k=draw.choice([0, 0, 1, 2]))]
    for key in draw.choices(KEYS, k=draw.choice([0, 1, 1, 2])):
        values: tuple[str, ...] = TEXTS
        if key in SMALL or key == "threads":
            values = (*SMALL.get(key, "12"), *SIZES)
        elif key.startswith("policy/") and draw.random() < 0.3:
            values = tuple(registry.names(key.partition("/")[2]))
        words.append(f"{draw.choice(['', '', '', '+', '++', '~'])}{key}={draw.choice(values)}")
    for key, values in SMALL.items():
        if not any(word.lstrip("+").startswith(f"{key}=") for word in words):
            words.append(f"{key}={draw.choice(values)}")
    return words


def _run(words: list[str]) -> tuple[int, str]:
    """The exit code and all that the command prints."""
    code, printed = 0, io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
            if isinstance(left.code, str):
                print(left.code)
    return code, printed.getvalue()


@contextlib.contextmanager
def _inside(place: Path) -> Iterator[None]:
    """Runs in a folder, and undoes what a process would take with it at its end."""
    variables, path = dict(os.environ), list(sys.path)
    os.environ["HOME"] = str(place)
    try:
        with contextlib.chdir(place), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:] = path


def _state(place: Path) -> tuple[object, ...]:
    files = [place / "kept" / "summary.json", *sorted((place / "kept").rglob("*.parquet"))]
    settings = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    return (*settings, *(path.read_bytes() for path in files))
