"""Tuning: studies that are played, killed and given again, and that cannot be played."""

import re
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

from fairbandit import registry
from tests.killing import leftovers, start, until

SMALL = ["rounds=30", "replicas=2"]


def stored(folder: Path) -> list[tuple[Any, ...]]:
    """Number, state, values and parameters of every trial in a study's database."""
    base = sqlite3.connect(folder / "study.db")
    rows = base.execute(
        "SELECT number, state, (SELECT group_concat(value) FROM trial_values v WHERE "
        "v.trial_id = t.trial_id), (SELECT group_concat(param_value) FROM trial_params p WHERE "
        "p.trial_id = t.trial_id) FROM trials t ORDER BY number"
    ).fetchall()
    base.close()
    return rows


def states(folder: Path) -> list[str]:
    return [row[1] for row in stored(folder)]


def second_under_way(folder: Path) -> bool:
    """Whether a study's second trial has a checkpoint, which waits for the end of the first one."""
    finished = {path.parent for path in folder.glob("*/summary.json")}
    saved = {path.parent for path in folder.glob("*/checkpoint.safetensors")}
    return len(finished) == 1 and bool(saved - finished)


@pytest.mark.long
def test_a_study_that_is_killed_ends_as_if_never_stopped(command, tmp_path):
    words = ["+experiment=tune", "rounds=3000", "replicas=2", "hydra.sweeper.n_trials=2"]
    running = start([*words, "hydra.sweep.dir=killed"], tmp_path)
    until(lambda: second_under_way(tmp_path / "killed"))
    running.process.kill()
    running.end()
    assert states(tmp_path / "killed") == ["COMPLETE", "RUNNING"]
    code, out, err = command(*words, "hydra.sweep.dir=killed")
    assert (code, err) == (0, "")
    assert "All jobs: 1 finished, 1 skipped" in out
    assert "Best of 2 trials" in out
    assert leftovers(tmp_path / "killed") == []
    assert command(*words, "hydra.sweep.dir=whole")[0] == 0
    assert states(tmp_path / "killed") == ["COMPLETE"] * 2
    assert stored(tmp_path / "killed") == stored(tmp_path / "whole")
    jobs = [{path.parent.name for path in tmp_path.glob(f"{one}/*/summary.json")}
            for one in ("killed", "whole")]  # fmt: skip
    assert jobs[0] == jobs[1]
    assert len(jobs[0]) == 2


def test_a_study_given_again_with_more_trials_and_its_best_trial_again(command, tmp_path):
    words = ["+experiment=tune", *SMALL, "hydra.sweep.dir=study"]
    assert command(*words, "hydra.sweeper.n_trials=1")[0] == 0
    (first,) = stored(tmp_path / "study")
    code, out, err = command(*words, "hydra.sweeper.n_trials=2")
    assert (code, err) == (0, "")
    assert "All jobs: 1 finished, 1 skipped" in out
    assert [row[0] for row in stored(tmp_path / "study")] == [0, 1]
    assert stored(tmp_path / "study")[0] == first
    drawn = {path.name for path in (tmp_path / "study" / "figures").iterdir()}
    assert {"study.png", "study.pdf"} < drawn
    assert any("tfevents" in name for name in drawn)
    (again,) = re.findall(r"trial \d again  fairbandit (.*)", out)
    assert "seed=1 replicas=10" in again
    code, out, err = command(*shlex.split(again))
    assert (code, err) == (0, "")
    assert "30 × 10 replicas" in out


def test_several_objectives_of_which_more_of_one_is_better(command, tmp_path, monkeypatch):
    monkeypatch.setattr(registry.lookup("metric", "standard_regret"), "lower_is_better", False)
    words = ["-m", "hydra/sweeper=optuna", "hydra.sweeper.n_trials=3", "hydra.sweeper.n_jobs=3"]
    words += ["hydra.sweeper.direction=[minimize,maximize]", "hydra.sweep.dir=study", *SMALL]
    space = ["policy=greedy,uniform", "environment.noise=interval(0.1,1)"]
    code, out, err = command(*words, *space, "objective=[fair_regret,standard_regret]")
    assert (code, err) == (0, "")
    assert states(tmp_path / "study") == ["COMPLETE"] * 3
    points = {
        row[0]: [float(one) for one in row[2].split(",")] for row in stored(tmp_path / "study")
    }
    dominated = {n for n, a in points.items() for b in points.values() if dominates(b, a)}
    assert "Not dominated of 3 trials" in out
    again = {int(number) for number in re.findall(r"trial (\d) again", out)}
    assert again == points.keys() - dominated
    assert (tmp_path / "study" / "figures" / "study.pdf").exists()


def dominates(one: list[float], other: list[float]) -> bool:
    """Whether one trial has less of the first and more of the second objective than another."""
    return one != other and one[0] <= other[0] and one[1] >= other[1]


def test_a_failed_job_ends_the_study_unless_failures_are_allowed(command, tmp_path):
    words = ["+experiment=tune", *SMALL, "hydra.sweep.dir=study", "hydra.sweeper.n_trials=3"]
    words += ["policy.estimator.regularization=1", "policy.rank.bandwidth=1"]
    words += ["policy.estimator.noise=choice(0,2)"]
    code, out, err = command(*words, "hydra.sweeper.max_failure_rate=1")
    assert code == 1
    found = states(tmp_path / "study")
    assert (len(found), {*found}) == (3, {"COMPLETE", "FAIL"})
    assert "noise (ρ) must be from 0 to 1, got 2" in out
    assert f"Best of {found.count('COMPLETE')} trials" in out
    assert "a job of this sweep failed" in err
    code, out, err = command(*words)
    assert code == 1
    assert states(tmp_path / "study")[-1] == "FAIL"
    assert "noise (ρ) must be from 0 to 1, got 2.0; the same command skips what is" in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["objective=null"], "OptunaSweeper chooses jobs by an objective, and none is given"),
        (["objective=regret"], "no metric 'regret'; it records fair_regret, standard_regret"),
        (["hydra.sweeper.n_trials=0"], "hydra.sweeper.n_trials must be at least 1, got 0"),
        (
            ["hydra.sweeper.direction=maximize"],
            "hydra.sweeper.direction is maximize, but the metrics fair_regret declare minimize",
        ),
        (
            ["objective=[fair_regret,standard_regret]", "hydra.sweeper.direction=minimize"],
            "declare [minimize,minimize]; give that, or null",
        ),
        (["hydra.sweep.dir=what?"], "must have no question mark"),
    ],
)
def test_a_study_that_cannot_be_played(command, tmp_path, words, message):
    code, _, err = command("+experiment=tune", *SMALL, *words)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.rglob("*.db"))


def test_an_unknown_objective_of_a_run_and_of_a_sweep(command, tmp_path):
    for words in (["objective=nope"], ["-m", "seed=0,1", "objective=nope"]):
        code, _, err = command(*words, *SMALL)
        assert code == 1
        assert "no metric 'nope'" in err
    assert not list(tmp_path.rglob("summary.json"))
    assert command("objective=[fair_regret]", *SMALL)[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["+experiment=tune"], "pip install 'fairbandit[optuna]' installs it"),
        (["-m", "hydra/sweeper=optuna"], "sweeper 'optuna' is not installed"),
        (["-m", "hydra/sweeper=nevergrad"], "pip install hydra-nevergrad-sweeper installs it"),
        (["-m", "hydra/sweeper=ax"], "pip install hydra-ax-sweeper installs it"),
    ],
)
def test_a_sweeper_that_is_not_installed(command, monkeypatch, words, message):
    Plugins.instance()  # registers those that are installed
    monkeypatch.delitem(ConfigStore.instance().repo["hydra"]["sweeper"], "optuna.yaml")
    code, _, err = command(*words)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
