"""A sweep and an agent killed again and again, a full disk, a folder that turns read-only.

`python -m tests.torture [KILLS]` takes some minutes and prints what it found; mounting the small
disk needs root. It is no part of the test suite, whose tests/cli/test_resume.py and
tests/agent/test_saving.py do the same in small.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.agent import saver
from tests.killing import begun, finish, kill_after, leftovers, outcome, start, until

SWEEP = ["-m", "policy=fair_greedy,greedy,oful,fair_greedy_oracle_rewards", "seed=0,1,2"]
SWEEP += ["replicas=4", "rounds=10000", "hydra.sweep.dir=sweep"]
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
ON_DISK = ["-m", "policy=fair_greedy,greedy", "seed=0,1", "replicas=5", "rounds=3000"]
ON_DISK += ["hydra.sweep.dir=disk/sweep"]
STARTING = 4.0  # seconds before the first job, about
SIZE = 64 * 2**20  # of the small disk, in bytes


def main() -> None:
    """Runs everything and reports."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        rounds, cut = saver.kill(base / "agent", 50)
        say(f"agent: killed 50 times in {rounds} rounds, {cut} times in the midst of its file")
        began = time.monotonic()
        whole(base / "whole", SWEEP)
        took = time.monotonic() - began
        say(f"never stopped: {took:.1f} s")
        for launcher, count in (([], kills - kills // 2), (JOBLIB, kills // 2)):
            killed(base / f"killed{len(launcher)}", launcher, base / "whole", count, took)
        if os.geteuid():
            say("disks: skipped, since only root can mount them")
        else:
            whole(base / "large", ON_DISK)
            disks(base / "small", base / "large")


def say(text: str) -> None:
    """Prints a line at once."""
    print(text, flush=True)


def whole(folder: Path, words: list[str], like: Path | None = None) -> None:
    """Plays a sweep to its end, which leaves nothing but results, those of another folder."""
    folder.mkdir(exist_ok=True)
    code, out = finish(words, folder)
    assert code == 0, out
    assert not leftovers(folder), leftovers(folder)
    assert like is None or outcome(folder) == outcome(like)


def killed(folder: Path, launcher: list[str], like: Path, kills: int, took: float) -> None:
    """Kills the sweep at random moments, each time starting the same command again."""
    folder.mkdir()
    words, done, began = [*SWEEP, *launcher], Counter[str](), time.monotonic()
    while sum(done.values()) < kills:
        delay = random.uniform(0.5, STARTING + 2 * took / kills)
        worker = bool(launcher) and random.random() < 0.5
        what = kill_after(start(words, folder), delay, worker=worker)
        if what == "ended":  # all done before all kills: start over, and go on killing
            whole(folder, words, like)
            shutil.rmtree(folder / "sweep")
        else:
            done[what] += 1
    whole(folder, words, like)
    say(f"{launcher}: killed {dict(done)}, {time.monotonic() - began:.0f} s: the same outcome")


def disks(folder: Path, like: Path) -> None:
    """A small disk that fills up, and then turns read-only while a sweep is killed."""
    disk, ballast = folder / "disk", folder / "disk" / "ballast"
    disk.mkdir(parents=True)
    mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk))
    try:
        ballast.write_bytes(b"0" * (SIZE - 1_500_000))
        refused(folder, "No space left on device")
        ballast.unlink()
        whole(folder, ON_DISK, like)
        shutil.rmtree(disk / "sweep")
        command = start(ON_DISK, folder)
        until(lambda: begun(folder))
        kill_after(command, 0)
        mount("-o", "remount,ro", str(disk))
        refused(folder, "Read-only file system")
        mount("-o", "remount,rw", str(disk))
        whole(folder, ON_DISK, like)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    say("disks: one message each, then the same outcome")


def refused(folder: Path, reason: str) -> None:
    """A sweep stops with one message, which every job may repeat."""
    code, out = finish(ON_DISK, folder)
    assert code == 1, out
    assert "Traceback" not in out, out
    errors = [line for line in out.splitlines() if line.startswith("fairbandit: error: ")]
    assert reason in errors[0], out


def mount(*words: str) -> None:
    """Mounts a disk, or mounts it again in another way; no file on it is open."""
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    os.environ.pop("HYDRA_FULL_ERROR", None)
    main()
