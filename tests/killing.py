"""Sweeps that are killed and started again, and what they leave behind."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fairbandit.cli.main import main

COMMAND = [sys.executable, "-m", "fairbandit.cli.main"]

TIMINGS = ("seconds",)

LEFTOVERS = ("*.unfinished", "checkpoint.pt", ".lock", "error.txt")


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, with the package importable and a checkpoint at every turn."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    base = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return base | {"FAIRBANDIT_CHECKPOINT_SECONDS": "0.02"} | variables


_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["fairbandit.cli.job"])  # takes seconds, and is the same for all


@dataclass
class Command:
    """The command, under way; what it prints goes to a file, which workers may outlive."""

    process: BaseProcess
    printed: "tempfile._TemporaryFileWrapper[str]"

    @property
    def pid(self) -> int:
        """The driver's number."""
        assert self.process.pid is not None
        return self.process.pid

    def end(self) -> tuple[int, str]:
        """Its exit code and all that it printed, once it has ended."""
        self.process.join()
        code = self.process.exitcode
        assert code is not None
        with self.printed:
            return code, self.printed.read()


def start(words: Sequence[str], folder: Path, **variables: str) -> Command:
    """The command, under way in a folder: a process forked from one that imported the package."""
    printed = tempfile.NamedTemporaryFile("r", encoding="utf-8")  # noqa: SIM115 - `end` closes it
    given = list(words), folder, environment(**variables), printed.name
    process = _FORKED.Process(target=_run, args=given, daemon=False)
    process.start()
    return Command(process, printed)


def _run(words: list[str], folder: Path, variables: dict[str, str], printed: str) -> None:
    with Path(printed).open("w") as out, Path(os.devnull).open() as nothing:
        for standard, file in enumerate((nothing, out, out)):
            os.dup2(file.fileno(), standard)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    main(words)


def finish(words: Sequence[str], folder: Path, **variables: str) -> tuple[int, str]:
    """The command's exit code and all that it printed, run by a new interpreter."""
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def kill_after(command: Command, delay: float, *, worker: bool = False) -> str:
    """Kills a command, or one of its workers; says which it was, or that it had ended."""
    command.process.join(delay)
    if command.process.exitcode is not None:
        command.end()
        return "ended"
    victims = list(workers(command.pid)) if worker else []
    os.kill(random.choice(victims) if victims else command.pid, signal.SIGKILL)
    command.end()
    return "worker" if victims else "driver"


def workers(parent: int) -> Iterator[int]:
    """Processes that a driver started to run jobs."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                line = (folder / "cmdline").read_text()
            except OSError:  # it has just ended
                continue
            if int(fields[1]) == parent and "popen_loky" in line:
                yield int(folder.name)


def outcome(folder: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The Parquet files' bytes and the summaries without timings, by path within a folder."""
    parquet = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")
    }
    found = {}
    for path in folder.rglob("summary.json"):
        summary = json.loads(path.read_text())
        found[str(path.relative_to(folder))] = {
            key: value for key, value in summary.items() if key not in TIMINGS
        }
    return parquet, found


def leftovers(folder: Path) -> list[str]:
    """Files that no finished sweep should hold."""
    return [str(path.relative_to(folder)) for mark in LEFTOVERS for path in folder.rglob(mark)]


def checkpoints(folder: Path) -> int:
    """How many checkpoints there are below a folder, in which others come and go meanwhile."""
    return sum("checkpoint.pt" in files for _, _, files in os.walk(folder))


def until(condition: Any, seconds: float = 60.0) -> None:
    """Waits for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
