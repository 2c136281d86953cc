"""A sweep and an agent killed again and again, a full disk, a folder that turns read-only.

`python -m tests.torture [KILLS]` takes some minutes and prints what it found; mounting the small
disk needs root. It is no part of the test suite, whose tests/cli/test_resume.py and
tests/agent/test_saving.py do the same in small.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.agent import saver
from tests.killing import checkpoints, finish, kill_after, leftovers, outcome, start, until

SWEEP = [
    "-m",
    "policy=fair_greedy,greedy,oful,fair_greedy_oracle_rewards",
    "seed=0,1,2",
    "replicas=4",
    "rounds=10000",
]
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
STARTING = 4.0  # seconds before the first job, about
SIZE = 64 * 2**20  # of the small disk, in bytes
KEPT = {"FAIRBANDIT_CHECKPOINT_SECONDS": "0.3"}


def main() -> None:
    """Runs everything and reports."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        agent(base)
        words = [*SWEEP, "hydra.sweep.dir=sweep"]
        took = whole(base / "whole", words)
        killed(base / "killed", words, base / "whole", kills - kills // 2, took)
        killed(base / "joblib", [*words, *JOBLIB], base / "whole", kills // 2, took, worker=True)
        disks(base)


def agent(folder: Path) -> None:
    """Kills an agent 50 times while it saves; it must go on with the same decisions."""
    rounds, cut = saver.kill(folder / "agent", 50)
    print(
        f"agent: killed 50 times in {rounds} rounds, {cut} times in the midst of its file: the "
        "same decisions",
        flush=True,
    )


def whole(folder: Path, words: list[str]) -> float:
    """The sweep never stopped, for comparison; how long it took."""
    folder.mkdir()
    began = time.monotonic()
    code, out = finish(words, folder)
    assert code == 0, out
    took = time.monotonic() - began
    print(f"never stopped: {took:.1f} s", flush=True)
    return took


def killed(
    folder: Path, words: list[str], whole: Path, kills: int, took: float, *, worker: bool = False
) -> None:
    """Kills the sweep at random moments, each time starting the same command again."""
    folder.mkdir()
    done: Counter[str] = Counter()
    starts, began = 0, time.monotonic()
    while sum(done.values()) < kills:
        command, starts = start(words, folder, **KEPT), starts + 1
        delay = random.uniform(0.5, STARTING + 2 * took / kills)
        what = kill_after(command, delay, worker=worker and random.random() < 0.5)
        if what == "ended":  # all done before all kills: start over, and go on killing
            compare(folder, whole, "ended early")
            subprocess.run(["rm", "-r", str(folder / "sweep")], check=True)
        else:
            done[what] += 1
    code, out = finish(words, folder, **KEPT)
    assert code == 0, out
    compare(folder, whole, "at the end")
    print(
        f"{'joblib' if worker else 'basic'}: killed {dict(done)}, {starts + 1} starts, "
        f"{time.monotonic() - began:.0f} s: the same bytes and summaries",
        flush=True,
    )


def compare(folder: Path, whole: Path, when: str) -> None:
    """What was killed equals what never was."""
    mine, theirs = outcome(folder / "sweep"), outcome(whole / "sweep")
    assert set(mine[0]) == set(theirs[0]), when
    assert mine == theirs, when
    assert not leftovers(folder / "sweep"), leftovers(folder / "sweep")


def disks(base: Path) -> None:
    """A small disk that fills up, one that turns read-only, folders that may not be written to."""
    words = ["-m", "policy=fair_greedy,greedy", "seed=0,1", "replicas=5", "rounds=3000"]
    words.append("hydra.sweep.dir=disk/sweep")
    other = base / "large"
    (other / "disk").mkdir(parents=True)
    code, out = finish(words, other)
    assert code == 0, out
    for test in (fills_up, turns_read_only, is_forbidden):
        folder = base / test.__name__
        (folder / "disk").mkdir(parents=True)
        try:
            with small_disk(folder / "disk") if test is not is_forbidden else nullcontext():
                message = test(words, folder)
                code, out = finish(words, folder, **KEPT)
                assert code == 0, out
                assert outcome(folder / "disk") == outcome(other / "disk")
                assert not leftovers(folder / "disk")
        except PermissionError as reason:
            print(f"{test.__name__}: skipped, {reason}")
        else:
            print(f"{test.__name__}: one message, then the same bytes\n  {message}", flush=True)


def fills_up(words: list[str], folder: Path) -> str:
    """Lets a sweep meet a full disk, then makes room."""
    (folder / "disk" / "ballast").write_bytes(b"0" * (SIZE - 1_500_000))
    code, out = finish(words, folder, **KEPT)
    (folder / "disk" / "ballast").unlink()
    return one_message(code, out, "No space left on device")


def turns_read_only(words: list[str], folder: Path) -> str:
    """Kills a sweep, and starts it again while its disk is read-only."""
    command = start(words, folder)
    until(lambda: checkpoints(folder) > 0)
    command.process.kill()
    command.end()
    remount(folder / "disk", "ro")
    code, out = finish(words, folder, **KEPT)
    remount(folder / "disk", "rw")
    return one_message(code, out, "Read-only file system")


def is_forbidden(words: list[str], folder: Path) -> str:
    """Forbids new files in all folders of a sweep that is running, then allows them again."""
    command = start(words, folder)
    until(lambda: checkpoints(folder) > 0)
    folders = [str(path) for path in (folder / "disk").rglob("*") if path.is_dir()]
    done = subprocess.run(["chattr", "+i", *folders], capture_output=True, text=True, check=False)
    code, out = command.end()
    subprocess.run(["chattr", "-i", *folders], capture_output=True, check=False)
    if done.returncode:
        raise PermissionError(f"no folder can be made immutable here: {done.stderr.strip()}")
    return one_message(code, out, "Operation not permitted")


def one_message(code: int, out: str, reason: str) -> str:
    """The message that a sweep stopped with, which every job may repeat."""
    assert code == 1, out
    assert "Traceback" not in out, out
    errors = [line for line in out.splitlines() if line.startswith("fairbandit: error: ")]
    assert reason in errors[0], out
    return errors[0]


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of 64 MiB in memory."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PermissionError(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(folder: Path, mode: str) -> None:
    """Turns the small disk read-only or writable; no file on it is open."""
    command = ["mount", "-o", f"remount,{mode}", str(folder)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    os.environ.pop("HYDRA_FULL_ERROR", None)
    main()
