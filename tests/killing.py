"""Sweeps that are killed and started again, and what they leave behind."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from fairbandit.metrics import Played
from fairbandit.policy.engine import Engine
from fairbandit.runs.execute import execute

COMMAND = [sys.executable, "-m", "fairbandit.cli.main"]

LEFTOVERS = ("*.unfinished", "checkpoint.pt", ".lock", "error.txt")


class Killed(KeyboardInterrupt):
    """Stands for SIGKILL: what a run does on errors, it does not do on this one."""


def cut_off(config: Mapping[str, Any], folder: Path, pieces: int) -> None:
    """A run that ends after so many pieces of rounds."""
    play = Engine.play

    def stops(self: Engine) -> Iterator[Played]:
        for played in play(self):
            if not left[0]:
                raise Killed
            left[0] -= 1
            yield played

    left = [pieces]
    with patch.object(Engine, "play", stops), suppress(Killed):
        execute(config, folder, progress=False)
        raise AssertionError("it was played to its end")


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, with the package importable."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables}


@dataclass
class Command:
    """The command, under way; what it prints goes to a file, which workers may outlive."""

    process: "subprocess.Popen[bytes]"
    printed: IO[str]

    def end(self) -> tuple[int, str]:
        """Its exit code and all that it printed, once it has ended."""
        code = self.process.wait()
        with self.printed:
            self.printed.seek(0)
            return code, self.printed.read()


def start(words: Sequence[str], folder: Path) -> Command:
    """The command, under way in a folder."""
    printed = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - `end` closes it
    outputs: dict[str, Any] = {"stdout": printed, "stderr": subprocess.STDOUT}
    outputs |= {"stdin": subprocess.DEVNULL, "env": environment()}
    return Command(subprocess.Popen([*COMMAND, *words], cwd=folder, **outputs), printed)


def finish(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """The command's exit code and all that it printed."""
    return start(words, folder).end()


def kill_after(command: Command, delay: float, *, worker: bool = False) -> str:
    """Kills a command, or one of its workers; says which it was, or that it had ended."""
    with suppress(subprocess.TimeoutExpired):
        command.process.wait(delay)
        command.end()
        return "ended"
    victims = list(workers(command.process.pid)) if worker else []
    os.kill(random.choice(victims) if victims else command.process.pid, signal.SIGKILL)
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
    found = {
        str(path.relative_to(folder)): {**json.loads(path.read_text()), "seconds": 0}
        for path in folder.rglob("summary.json")
    }
    return parquet, found


def leftovers(folder: Path) -> list[str]:
    """Files that no finished sweep should hold."""
    return [str(path.relative_to(folder)) for mark in LEFTOVERS for path in folder.rglob(mark)]


def begun(folder: Path) -> bool:
    """Whether a run below a folder has begun to play; its event file stays when it ends."""
    return any(".tfevents." in name for _, _, files in os.walk(folder) for name in files)


def until(condition: Any, seconds: float = 60.0) -> None:
    """Waits for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
