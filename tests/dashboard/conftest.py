"""A sweep that was just made, and the dashboard on it as a user starts it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from fairbandit.cli.main import main
from fairbandit.runs.folder import EVENTS, LOCK, SUMMARY

POLICIES = ["uniform", "greedy", "fair_greedy"]


@pytest.fixture(scope="package")
def sweep(tmp_path_factory):
    """Three settings with two seeds each, two figures, an unfinished run and a damaged one."""
    place = tmp_path_factory.mktemp("sweep")
    words = [f"policy={','.join(POLICIES)}", "seed=0,1", "figures=[overview,price]"]
    words += ["rounds=300", "replicas=4", "hydra.sweep.dir=sweep"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        main(["-m", *words])
    sweep = place / "sweep"
    unfinished = sweep / "unfinished"
    shutil.copytree(next(sweep.glob("policy*")), unfinished)
    (unfinished / SUMMARY).unlink()
    (unfinished / LOCK).touch()
    (sweep / "damaged").mkdir()
    (sweep / "damaged" / EVENTS.replace("*", "1")).write_bytes(bytes(range(256)) * 9)
    return sweep


@pytest.fixture(scope="package")
def addresses(sweep, tmp_path_factory):
    """The addresses that the command prints, by what it says of them; Ctrl-C ends it."""
    command = [sys.executable, "-m", "fairbandit.cli.main", "dashboard", str(sweep), "port=0"]
    temporary = tmp_path_factory.mktemp("temporary")
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(2)]
        try:
            yield dict(line.rpartition(", ")[2].split(": ", 1) for line in lines)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
            assert "Ctrl-C" in process.stdout.read()
            assert process.stderr is not None
            assert "NOTE" not in process.stderr.read()  # of TensorBoard, about itself
            assert not list(temporary.glob("fairbandit-*"))
            assert (sweep / "results.csv").exists()  # links are removed, not what they link to


def wait_for(ask: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    """The first answer that is enough, within a minute."""
    until = time.monotonic() + 60
    while not enough(found := ask()):
        assert time.monotonic() < until, found
        time.sleep(0.5)
    return found
