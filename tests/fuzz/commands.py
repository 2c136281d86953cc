"""Hostile command lines, in this process: runs, sweeps, flags and tools.

A command may succeed, or end with one message that begins as all messages of the command do. It
may not show a traceback, take long, or change anything but its own outputs: a finished run beside
them, the working directory, the environment's variables and torch's settings stay as they are.
"""

import contextlib
import hashlib
import io
import json
import math
import os
import random
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fairbandit import registry
from fairbandit.cli.main import main
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.run.execute import execute
from tests.fuzz.harness import Fault, FoundError, Subject

SMALL = {"rounds": ("1", "2", "12"), "replicas": ("1", "2")}
"""Values that are right and cost little: a sound long run is no fault."""

SIZES = ("0", "-1", "1000000000000", "9223372036854775808", "10000000000000000000000000", "1e3")
"""Numbers that no size may be, for keys whose sound values could take long."""

VALUES = (
    *(
        "0",
        "1",
        "-1",
        "0.5",
        "-0.0",
        "1e300",
        "1e-300",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "1e3",
        "0x10",
    ),
    *("true", "null", "''", "'1'", "abc", "[]", "{}", "[1,2]", "{a:1}", "[[]]", "{a:{b:[1]}}"),
    *("${seed}", "${rounds}", "${nope}", "${oc.env:HOME}", "${oc.env:NOPE}", "${environment}"),
    *("${oc.decode:1}", "${oc.create:{}}", "${hydra:runtime.cwd}", "${fairbandit.job:}", "${", "$"),
    *("???", "@", "a=b", "a,b", "1,2", "1,1", "range(3)", "range(0)", "choice(1,2)", "glob(x*)"),
    *("glob(nothing*)", "interval(0,1)", "sort(2,1)", "shuffle(1,2)", "tag(a,1)", "range(1,9,0)"),
    *("int(1)", "float(nan)", "str(1)", "bool(x)", "json_str('{')", "extend_list(1)", "[red]x[/x]"),
    *("../x", "/dev/null", "/dev/null/x", "~", ".", "a b", "ü", "\x00", "\u202e", "\\", "'", '"'),
    *("x" * 300, "1000000000000", "9223372036854775808", "10000000000000000000000000", "99999"),
    *("ridge", "oful", "halves", "full", "simulation", "table", "census_gender", "argmax", "cuda"),
    *("policy", "_target_", "os.system", "cpu", "cuda:99", "meta", "mps", "mkldnn", "-m", "--help"),
)

SOUND = (
    *(
        "policy=oful",
        "policy=fair_greedy",
        "policy=gmf",
        "policy=uniform",
        "policy/rank=shrunk_cdf",
    ),
    *("policy/rank=recent_cdf", "policy/rank=smoothed_cdf", "policy.estimator.regularization=0.01"),
    *(
        "environment.noise=1.0",
        "environment.cdf=sampled",
        "seed=3",
        "policy=oful,greedy",
        "seed=0,1",
    ),
    *("resume=false", "threads=2", "hydra.run.dir=kept", "hydra.run.dir=mine", "policy=greedy"),
    *(
        "hydra.sweep.dir=swept",
        "figures=[overview]",
        "environment.cdf=sampled environment.cdf_samples=100",
    ),
)
"""Words that are right by themselves; some need -m."""

KEYS = (
    *(
        "rounds",
        "replicas",
        "seed",
        "device",
        "threads",
        "resume",
        "figures",
        "policy",
        "nope",
    ),
    *("policy.name", "policy/split", "policy/estimator", "policy/rank", "policy/selector"),
    *("policy.estimator.regularization", "policy.estimator.noise", "policy.estimator.exploration"),
    *("policy.estimator.radius", "policy.estimator.delta", "policy.rank.size", "policy.rank.prior"),
    *("policy.rank.alpha", "policy.rank.bandwidth", "policy.rank", "policy.split", "environment"),
    *("environment.noise", "environment.bias", "environment.groups", "environment.slice"),
    *("environment.theta", "environment.weights", "environment.cdf", "environment.cdf_samples"),
    *("environment.path", "environment.group", "environment.reward", "environment.columns"),
    *("environment.root", "environment.states", "environment.year", "environment.candidates"),
    *("environment.pool", "environment.rewards", "environment.min_group_size", "environment.name"),
    *("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.job.name", "hydra.mode"),
    *("hydra.output_subdir", "hydra.verbose", "hydra.job.chdir", "hydra.searchpath", "hydra"),
    *("hydra.job.env_set.FAIRBANDIT_PLUGINS", "hydra.job.env_set.X", "hydra.job.env_copy"),
    *("hydra/job_logging", "hydra/hydra_logging", "hydra/sweeper", "hydra/launcher", "hydra/help"),
    *(
        "hydra.job_logging.handlers.x.class",
        "hydra.job_logging.formatters.x.()",
        "hydra.callbacks.x",
    ),
    *(
        "hydra.sweeper.params",
        "hydra.sweeper.max_batch_size",
        "experiment",
        "",
        "_target_",
        "a.b.c",
    ),
    *("policy@other", "policy.rank.trim", "environment.noise.x", "hydra.sweeper._target_"),
)

FLAGS = (
    *("--help", "-h", "--hydra-help", "--version", "--cfg", "--cfg=job", "-c", "--resolve", "-m"),
    *("--info", "--info=all", "-i", "--package", "-p", "--run", "-r", "--multirun", "--nope"),
    *("--config-name", "--config-name=nope", "-cn", "--config-path=..", "-cp", "--config-dir=."),
    *("-cd", "--experimental-rerun", "--experimental-rerun=x.pickle", "--exp", "--experimental=x"),
    *("--experimental-r", "-sc", "--shell-completion", "-sc=install=bash", "--", "-", "---"),
)

TOOLS = ("collect", "check", "figures", "theory", "parity", "nope", "", "dashboard")

TOOL_WORDS = (
    *("kept", "nothing", ".", "", "kept/summary.json", "--out", "x.csv", "x.parquet", "x.txt"),
    *("--only", "overview", "overview,price", "nope", "--policies", "greedy", "--level", "0.5"),
    *("nan", "-1", "2", "--help", "--nope", "rank=recent_cdf", "rank.size=[", "rank.size=0"),
    *(
        "rank.size=10",
        "rank=nope",
        "estimator=ridge",
        "split=halves",
        "selector=argmax",
        "rank=",
        "=",
    ),
    *("environment=simulation", "environment=nope", "environment.bias=1e300", "environment=table"),
    *(
        "environment.noise=-1",
        "delta=0.1",
        "--port",
        "99999999",
        "x" * 200,
        "[red]",
        "\x00",
        "a=b=c",
    ),
)


class Commands(Subject):
    """The console script."""

    name = "commands"
    share = 0.1
    limit = 30.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._kept = folder / "kept"
        run = {
            "policy": {"name": "greedy", "split": "full", "estimator": "ridge", "rank": "identity"},
            "environment": {"name": "simulation"},
            "rounds": 12,
            "replicas": 2,
        }
        execute(run, self._kept, progress=False)

    def attempt(self, number: int) -> None:
        """One command in a folder of its own, with a finished run beside it."""
        draw = self.source(number)
        place = self.folder / f"{number}" / "a" / "b"
        place.mkdir(parents=True)
        shutil.copytree(self._kept, place / "kept")
        words = _words(draw)
        before = _digest(place / "kept"), _settings()
        try:
            with _undone(place):
                code, said = _run(words)
            told = f"{words!r}: exit code {code}\n{said[-2000:]}"
            if "Traceback" in said:
                raise FoundError(Fault.traceback, told)
            if code not in (0, 1, 2):
                raise FoundError(Fault.value, told)
            if (_digest(place / "kept"), _settings()) != before:
                raise FoundError(Fault.state, told)
            others = [path.name for path in (self.folder / f"{number}").iterdir()]
            if others != ["a"]:
                raise FoundError(Fault.state, f"{words!r} wrote {others} above its folder")
            if code:
                if PREFIX not in said and "usage:" not in said and "error" not in said.lower():
                    raise FoundError(Fault.value, f"no message: {told}")
                raise FairbanditError(said[-500:])
            for path in place.rglob("summary.json"):
                _check_summary(path, told)
        finally:
            shutil.rmtree(self.folder / f"{number}")


def _words(draw: random.Random) -> list[str]:
    kind = draw.random()
    if kind < 0.25:
        return [draw.choice(TOOLS), *draw.choices(TOOL_WORDS, k=draw.randint(0, 4))]
    words = [] if draw.random() < 0.7 else ["-m"]
    if draw.random() < 0.2:
        words.insert(draw.randint(0, len(words)), draw.choice(FLAGS))
    for some in draw.choices(SOUND, k=draw.choice([0, 0, 1, 2])):
        words += some.split()
    for _ in range(draw.choice([0, 1, 1, 1, 2])):
        key = draw.choice(KEYS)
        sign = draw.choice(["", "", "", "", "+", "++", "~"])
        words.append(f"{sign}{key}={_value(draw, key)}")
    if draw.random() < 0.2:
        words.append(draw.choice(VALUES))
    for key, values in SMALL.items():
        if not any(word.lstrip("+").startswith(f"{key}=") for word in words):
            words.append(f"{key}={draw.choice(values)}")
    return words


def _value(draw: random.Random, key: str) -> str:
    if key in SMALL:
        return draw.choice((*SMALL[key], *SIZES))
    if key == "threads":
        return draw.choice(("1", "2", "100000", *SIZES))
    registered = {kind: registry.names(kind) for kind in registry.KINDS}
    if draw.random() < 0.3 and key.rpartition("/")[2] in registered:
        return draw.choice(registered[key.rpartition("/")[2]])
    return draw.choice(VALUES)


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
def _undone(place: Path) -> Iterator[None]:
    """Runs in a folder, and undoes what a process would take with it at its end."""
    there, variables, path = Path.cwd(), dict(os.environ), list(sys.path)
    os.chdir(place)
    os.environ["HOME"] = str(place)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.chdir(there)
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:] = path


def _settings() -> tuple[Any, ...]:
    return torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def _digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name in ("summary.json", "rewards.parquet")
    }


def _check_summary(path: Path, told: str) -> None:
    """What any finished run owes: as many picks as rounds, and regrets that are numbers."""
    summary = json.loads(path.read_text())
    picked = math.fsum(group["mean"] for group in summary["selected"].values())
    if round(picked, 6) != summary["rounds"]:
        raise FoundError(Fault.value, f"{picked} picks in {summary['rounds']} rounds: {told}")
    for key in ("fair_pseudo_regret", "standard_pseudo_regret"):
        mean = summary[key]["mean"]
        if mean is None or not (math.isfinite(mean) and mean >= -1e-9):
            raise FoundError(Fault.value, f"{key} is {mean}: {told}")
