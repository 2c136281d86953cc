"""Runs and sweeps given again: skipped, gone on with, retried, refused."""

import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.killing import begun, kill_after, leftovers, outcome, start, until

SMALL = ["rounds=12", "replicas=2"]


def stats(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of every file."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_a_finished_run_is_skipped_and_shown(command, tmp_path):
    first = command("policy=oful", *SMALL)
    before = stats(tmp_path)
    code, out, err = command("policy=oful", *SMALL, "threads=2")
    assert (code, err) == (0, "")
    assert out.replace("already finished: ", "") == first[1]
    assert "results  already finished: outputs/runs/policy-oful_rounds-12_replicas-2" in out
    assert stats(tmp_path) == before


def test_without_resume_a_run_goes_to_a_new_folder(command, tmp_path):
    command(*SMALL)
    before = stats(tmp_path)
    for number in (2, 3):
        code, out, _ = command(*SMALL, "resume=false")
        assert code == 0
        assert f"outputs/runs/rounds-12_replicas-2-{number}\n" in out
    assert {path: stat for path, stat in stats(tmp_path).items() if path in before} == before
    assert command("seed=7", *SMALL, "resume=false")[0] == 0
    names = {path.name for path in (tmp_path / "outputs" / "runs").iterdir()}
    own = {f"rounds-12_replicas-2{end}" for end in ("", "-2", "-3")}
    assert names == {*own, "seed-7_rounds-12_replicas-2"}


@pytest.mark.all
def test_a_sweep_killed_again_and_again_ends_as_if_never_stopped(command, tmp_path):
    words = ["-m", "policy=fair_greedy,greedy,oful", "rounds=2500", "replicas=2"]
    assert command(*words, "hydra.sweep.dir=whole")[0] == 0
    words.append("hydra.sweep.dir=killed")
    began = time.monotonic()
    first = start(words, tmp_path)
    until(lambda: begun(tmp_path))
    ready, moments = time.monotonic() - began, random.Random(1)
    kill_after(first, 0)
    for _ in range(3):
        kill_after(start(words, tmp_path), moments.uniform(0.6, 1.2) * ready)
    code, _, err = command(*words)
    assert code == 0, err
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert leftovers(tmp_path / "killed") == []


@pytest.mark.all
def test_a_job_waits_for_one_that_outlived_its_sweep(command, tmp_path):
    words = ["-m", "policy=greedy,uniform", "rounds=30000", "replicas=2", "hydra.sweep.dir=sweep"]
    run = ["policy=greedy", *words[2:4]]
    alone = start([*run, "hydra.run.dir=sweep/policy-greedy"], tmp_path)
    until(lambda: begun(tmp_path))
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert "All jobs: 2 finished" in out or "All jobs\n" in re.sub(" +\n", "\n", out)
    assert alone.end()[0] == 0


@pytest.mark.all
def test_a_disk_that_fills_up(command, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    subprocess.run(mount, capture_output=True, check=True)
    words = ["-m", "seed=0,1,2", "rounds=1500", "replicas=4", "hydra.sweep.dir=disk/sweep"]
    try:
        (disk / "ballast").write_bytes(b"0" * 24_300_000)
        code, out, err = command(*words)
        assert code == 1
        assert "Traceback" not in out + err
        errors = [line for line in err.splitlines() if line.startswith("fairbandit: error: ")]
        assert all("No space left on device" in line for line in errors)
        assert len(errors) <= 4  # one a job, and one of the sweep
        (disk / "ballast").unlink()
        assert command(*words)[0] == 0
        found = outcome(disk / "sweep")
        assert leftovers(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert command(*words[:-1], "hydra.sweep.dir=other")[0] == 0
    assert found == outcome(tmp_path / "other")
