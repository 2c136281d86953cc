"""Runs and sweeps given again: skipped, gone on with, retried, refused."""

import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from fairbandit.run.folder import claim
from tests.killing import checkpoints, kill_after, leftovers, outcome, start, until

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
    assert names == {f"rounds-12_replicas-2{end}" for end in ("", "-2", "-3")} | {
        "seed-7_rounds-12_replicas-2"
    }


def test_a_run_that_was_cut_off_goes_on(command, tmp_path):
    words = ["policy=greedy", "rounds=30000", "replicas=2"]
    running = start(words, tmp_path)
    until(lambda: checkpoints(tmp_path) > 0)
    running.process.kill()
    running.end()
    folder = "outputs/runs/" + run_name(words)
    code, _, err = command("seed=1", *words, f"hydra.run.dir={folder}")
    assert code == 1
    assert "seed: 0 there, 1 here" in err
    code, _, err = command(*words)
    assert code == 0
    assert re.search(r"going on at round [\d,]+ of 30,000", err)
    assert command(*words, "hydra.run.dir=whole")[0] == 0
    assert outcome(tmp_path / folder) == outcome(tmp_path / "whole")


def run_name(words: list[str]) -> str:
    return "_".join(words).replace("=", "-")


@pytest.mark.long
def test_a_sweep_killed_again_and_again_ends_as_if_never_stopped(command, tmp_path):
    words = ["-m", "policy=fair_greedy,greedy,oful", "rounds=2500", "replicas=2"]
    assert command(*words, "hydra.sweep.dir=whole")[0] == 0
    words.append("hydra.sweep.dir=killed")
    start(["--version"], tmp_path).end()  # what it is forked from is there for all that follow
    began = time.monotonic()
    first = start(words, tmp_path)
    until(lambda: checkpoints(tmp_path) > 0)
    ready, moments = time.monotonic() - began, random.Random(1)
    kill_after(first, 0)
    for _ in range(3):
        kill_after(start(words, tmp_path), moments.uniform(0.6, 1.2) * ready)
    code, _, err = command(*words)
    assert code == 0, err
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert leftovers(tmp_path / "killed") == []


def test_a_sweep_given_again_skips_all(command, tmp_path):
    words = ["-m", "policy=greedy,uniform", *SMALL]
    command(*words)
    jobs = list((tmp_path / "outputs" / "sweeps").glob("*/policy-*"))
    before = [stats(job) for job in jobs]
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert "All jobs: 2 skipped" in out
    assert [stats(job) for job in jobs] == before
    assert len(jobs) == 2


def test_without_resume_a_sweep_goes_to_a_new_folder(command, tmp_path):
    words = ["-m", "policy=greedy,uniform", *SMALL]
    command(*words)
    before = stats(tmp_path)
    code, out, _ = command(*words, "resume=false")
    assert code == 0
    assert "All jobs\n" in re.sub(" +\n", "\n", out)
    assert {path: stat for path, stat in stats(tmp_path).items() if path in before} == before
    sweeps = tmp_path / "outputs" / "sweeps"
    name = "policy-greedy+uniform_rounds-12_replicas-2"
    assert sorted(path.name for path in sweeps.iterdir()) == [name, f"{name}-2"]
    jobs = [sorted(path.name for path in folder.glob("policy*")) for folder in sweeps.iterdir()]
    assert jobs[0] == jobs[1]


def test_failed_jobs_are_named_and_tried_again(command, tmp_path):
    words = ["-m", "policy=uniform,greedy", "environment=table", "environment.path=people.csv"]
    words += [
        "environment.group=g",
        "environment.reward=r",
        "+environment.columns={x:null}",
        *SMALL,
    ]
    ours = ["-m", "replicas=0,1", "rounds=5"]
    code, out, err = command(*ours)
    assert code == 1
    assert err.count("fairbandit: error: ") == 2
    assert "job 0 (replicas=0,rounds=5): replicas must be at least 1, got 0\n" in err
    assert err.endswith("of this sweep failed; the same command skips what is finished and tries "
                        "the rest again\n")  # fmt: skip
    assert "All jobs: 1 finished, 1 failed" in out
    assert "Jobs without results" in out
    assert "Traceback" not in err
    (tmp_path / "people.csv").write_text("g,r,x\n")
    code, out, _ = command(*words)
    assert code == 1
    assert "2 failed" in out
    lines = [f"{i % 2},{i},{i * i % 7}\n" for i in range(40)]
    (tmp_path / "people.csv").write_text("g,r,x\n" + "".join(lines))
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert "failed" not in out
    assert leftovers(tmp_path / "outputs" / "sweeps") == [
        "replicas-0+1_rounds-5/replicas-0_rounds-5/error.txt"
    ]


BROKEN = """
from fairbandit import register
from fairbandit.parts import Identity

@register("rank", "breaks")
class Breaks(Identity):
    '''Breaks.'''
    def _index(self, candidates):
        raise ZeroDivisionError("in the plugin")
"""


@pytest.mark.usefixtures("clean")
def test_a_bug_in_a_plugin_fails_its_job_alone(command, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "plugin_breaks.py").write_text(BROKEN)
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(tmp_path / "mine"))
    code, out, err = command("-m", "policy=greedy", "policy/rank=breaks,identity", *SMALL)
    assert code == 1
    assert "ZeroDivisionError: in the plugin" in out
    assert "Traceback" not in err
    (error,) = tmp_path.rglob("error.txt")
    assert "plugin_breaks.py" in error.read_text()
    assert len(list(tmp_path.rglob("summary.json"))) == 1


def test_a_second_sweep_into_the_same_folder_says_so_and_stops(command, tmp_path):
    words = ["-m", "policy=greedy,uniform", *SMALL]
    sweep = tmp_path / "outputs" / "sweeps" / "policy-greedy+uniform_rounds-12_replicas-2"
    with claim(sweep, ""):
        code, _, err = command(*words)
    assert code == 1
    assert err.startswith("fairbandit: error: another sweep is writing to outputs/sweeps/policy-")
    assert err.count("\n") == 1
    assert list(tmp_path.rglob("*.parquet")) == []
    assert command(*words)[0] == 0


def test_a_job_waits_for_one_that_outlived_its_sweep(command, tmp_path):
    words = ["-m", "policy=greedy,uniform", "rounds=30000", "replicas=2", "hydra.sweep.dir=sweep"]
    run = ["policy=greedy", *words[2:4]]
    alone = start([*run, "hydra.run.dir=sweep/" + run_name(run)], tmp_path)
    until(lambda: checkpoints(tmp_path) > 0)
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert "All jobs: 2 finished" in out or "All jobs\n" in re.sub(" +\n", "\n", out)
    assert alone.end()[0] == 0


def test_a_disk_that_fills_up_stops_a_sweep_with_one_message(command, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    words = ["-m", "seed=0,1,2", "rounds=1500", "replicas=4", "hydra.sweep.dir=disk/sweep"]
    try:
        (disk / "ballast").write_bytes(b"0" * 24_300_000)
        code, out, err = command(*words)
        told = ("composing the jobs", "3 jobs in disk/sweep", "configs checked ", "jobs done ")
        lines = [line for line in (out + err).splitlines() if line and not line.startswith(told)]
        assert code == 1
        assert len(lines) == 1
        assert "No space left on device" in lines[0]
        (disk / "ballast").unlink()
        assert command(*words)[0] == 0
        found = outcome(disk / "sweep")
        assert leftovers(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert command(*words[:-1], "hydra.sweep.dir=other")[0] == 0
    assert found == outcome(tmp_path / "other")
