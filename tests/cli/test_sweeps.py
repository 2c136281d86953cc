"""Sweeps: their folders, their tables, and what happens when a job fails."""

import csv
import json
from pathlib import Path

import pytest

from fairbandit.runs.folder import LONGEST, claim, folder_name

SMALL = ["rounds=12", "replicas=2"]
SWEEP = "outputs/sweeps/policy_seed_rounds-12_replicas-2"


def times(folder: Path) -> dict[str, int]:
    """When each job of a sweep was finished."""
    found = folder.glob("*/summary.json")
    return {path.parent.name: path.stat().st_mtime_ns for path in found}


def test_names_are_short_plain_and_apart():
    long = folder_name([f"environment.theta=[{','.join('1234567890')}]"] * 5)
    assert len(long) <= LONGEST
    assert set(long) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.+")
    fixed = ["policy.estimator.smoothing_of_the_interval=0.123456789", "environment.cdf=sampled"]
    names = {
        folder_name([*fixed, "policy.estimator.regularization=3.268"]),
        folder_name([*fixed, "policy.estimator.regularization=4.729"]),
        *(folder_name([f"policy{sign}rank=x"]) for sign in "/."),
        *(folder_name([word]) for word in ("policy.name=a/b", "policy.name=a b", "theta=1,2")),
        *(folder_name([f"{key}.noise=1"]) for key in ("policy.estimator", "environment")),
        *(folder_name([word], swept=["seed"]) for word in ("rounds=1", "rounds=2")),
        folder_name(["seed=1"], swept=["rounds"]),
    }
    assert len(names) == 12
    assert folder_name(["resume=false", "++threads=2", "seed=1"]) == folder_name(["seed=1"])
    assert folder_name([]) == folder_name(["resume=false"]) == "default"


def test_the_same_command_with_further_values_goes_on(command, tmp_path):
    code, out, err = command("-m", "policy=greedy,uniform", "seed=0,1", *SMALL)
    assert (code, err) == (0, "")
    before = times(tmp_path / SWEEP)
    assert sorted(before) == [f"policy-{p}_seed-{s}" for p in ("greedy", "uniform") for s in (0, 1)]
    assert out.count("All jobs: 4 finished") == 1
    code, out, err = command("-m", "policy=greedy,oful", "seed=1,2", *SMALL)
    assert (code, err) == (0, "")
    assert "job 0 (policy-greedy_seed-1): already finished: fair regret " in out
    assert "All jobs: 3 finished, 4 skipped" in out
    after = times(tmp_path / SWEEP)
    assert {job: after[job] for job in before} == before
    with (tmp_path / SWEEP / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    summaries = [json.loads(f.read_text()) for f in (tmp_path / SWEEP).glob("*/summary.json")]
    by_run = {(row["policy"], row["seed"], row["measure"]): row for row in rows}
    assert len({(row["policy"], row["seed"]) for row in rows}) == len(summaries) == 7
    for summary in summaries:
        for name, value in summary["metrics"].items():
            row = by_run[summary["policy"], str(summary["seed"]), name]
            assert float(row["mean"]) == pytest.approx(value["mean"])


def test_without_resume_a_sweep_goes_to_a_new_folder(command, tmp_path):
    for _ in range(2):
        assert command("-m", "seed=0", *SMALL, "resume=false")[0] == 0
    first, again = sorted((tmp_path / "outputs" / "sweeps").iterdir())
    assert again.name == f"{first.name}-2"
    assert times(first).keys() == times(again).keys()


def test_a_failing_job_does_not_stop_the_others(command, tmp_path, plugin):
    plugin("breaks", index="scored.scores.value / {}")
    words = ["-m", "rounds=5", "hydra.sweep.dir=sweep"]
    code, out, err = command(*words, "policy/rank=breaks,identity", "replicas=0,2")
    assert code == 1
    assert "All jobs: 1 finished, 3 failed" in out
    message = "replicas must be at least 1, got 0\n"
    assert f"failed  2 jobs, as rank-breaks_replicas-0: {message}" in out
    assert "failed  rank-breaks_replicas-2: TypeError: " in out
    assert f"error: job 2 (rank-identity_replicas-0): {message}" in err
    assert "3 jobs of this sweep failed; the same command skips finished jobs" in err
    assert "Traceback" not in err
    found = [file.read_text() for file in tmp_path.rglob("error.txt")]
    assert sorted(text == message for text in found) == [False, True, True]
    assert any("plugin_breaks.py" in text for text in found)
    code, out, _ = command(*words, "policy/rank=identity,empirical_cdf", "replicas=choice(2)")
    assert code == 0  # errors of an earlier command are forgotten
    assert "All jobs: 1 finished, 1 skipped" in out


def test_a_refused_job_hides_no_earlier_result(command, tmp_path):
    """A folder of another sweep, whose jobs have the same names, is used by mistake."""
    words = ["-m", "replicas=2", "rounds=5", "hydra.sweep.dir=here"]
    assert command(*words, "policy=greedy,uniform")[0] == 0
    before = command("collect", "here")[1]
    code, out, err = command(*words, "environment.noise=0.5", "policy=greedy,optimal")
    assert (code, "All jobs: 1 finished, 1 skipped, 1 failed" in out) == (1, True)
    assert "already holds a finished run (summary.json) of a different config" in err
    assert "\n optimal" in out
    assert "\n greedy" not in out
    assert command("collect", "here", "policy=greedy,uniform")[1] == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["figures=[nope]"], "unknown figure 'nope'; expected one of overview"),
        (["seed=range(5,5)"], "a swept key has an empty list of values"),
        (["policy/rank=identity,nope"], "Could not find 'policy/rank/nope'"),
        (["environment.nope=1"], "environment has no key 'nope'; it takes groups"),
        (["hydra.sweep.dir=file/sweep"], "Not a directory"),
    ],
)
def test_what_all_jobs_share_is_checked_before_any_runs(command, tmp_path, words, message):
    (tmp_path / "file").write_text("")
    code, out, err = command("-m", "seed=0,1", *SMALL, *words)
    assert code == 1
    assert message in err
    assert "Traceback" not in out + err
    assert not list(tmp_path.rglob("summary.json"))


def test_a_second_sweep_into_the_same_folder_says_so_and_stops(command, tmp_path):
    words = ["-m", "policy=greedy,uniform", "seed=0", *SMALL]
    with claim(tmp_path / SWEEP.replace("seed", "seed-0")):
        code, _, err = command(*words)
    assert code == 1
    assert err.startswith("fairbandit: error: another sweep is writing to outputs/sweeps/policy_")
    assert list(tmp_path.rglob("*.parquet")) == []


def test_figures_are_drawn_once_the_results_are_written(command, tmp_path, monkeypatch):
    words = ["-m", "policy=uniform,greedy", *SMALL, "hydra.sweep.dir=sweep"]
    code, out, err = command(*words, "figures={price:gmf}")
    assert code == 1
    assert "no run has policy=gmf; its values are uniform, greedy" in err
    assert "results  sweep/results.csv" in out
    code, out, err = command(*words, "figures=[{overview:[greedy]},price]")
    assert (code, err) == (0, "")
    figures = tmp_path / "sweep" / "figures"
    assert len(list(figures.glob("*.p*"))) == 4
