"""Commands given again after an edit: exactly the jobs that it concerns are played again."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fairbandit.audit.picks import read_picks
from fairbandit.results import read_runs
from tests.plugins.edited import edit, forget, rank

SMALL = ["rounds=12", "replicas=2"]


@pytest.fixture
def plugins(tmp_path, monkeypatch, clean):
    """A folder of plugins."""
    folder = tmp_path / "plugins_here"
    folder.mkdir()
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(folder))
    return folder


@pytest.fixture
def again(command, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """Gives a command as a new process would."""

    def run(*words: str) -> tuple[int, str, str]:
        forget(tmp_path)
        code, out, err = command(*words)
        return code, out, err

    return run


def played(folder: Path) -> dict[str, int]:
    """When each job of a sweep was finished."""
    jobs = (path for path in folder.glob("*/summary.json") if ".old-" not in str(path))
    return {path.parent.name: path.stat().st_mtime_ns for path in jobs}


def regrets(folder: Path) -> dict[str, float]:
    """The fair pseudo-regret of each job."""
    return {
        job: json.loads((folder / job / "summary.json").read_text())["fair_pseudo_regret"]["mean"]
        for job in played(folder)
    }


def test_an_edit_of_a_plugin_concerns_the_jobs_that_use_it(again, plugins, tmp_path):
    one = rank(plugins, "one")
    rank(plugins, "two")
    words = ["-m", "policy=fair_greedy", "policy/rank=one,two,empirical_cdf", "seed=0,1", *SMALL]
    folder = tmp_path / "sweep"
    code, out, err = again(*words, "hydra.sweep.dir=sweep")
    assert (code, err) == (0, "")
    before, old = played(folder), regrets(folder)
    assert len(before) == 6

    edit(one, "1 - 1.0 *", "0 + 1.0 *")
    code, out, err = again(*words, "hydra.sweep.dir=sweep")
    assert code == 0
    assert "All jobs: 2 finished, 4 skipped" in out
    assert err.count(": played again: plugin rank_one.py changed; the results before are in ") == 2
    assert err.count("\n") == 2
    after, new = played(folder), regrets(folder)
    changed = {job for job in before if after[job] != before[job]}
    assert changed == {job for job in before if "rank-one" in job}
    assert {job for job in before if new[job] != old[job]} == changed
    for job in changed:
        (aside,) = folder.glob(f"{job}.old-*")
        kept = json.loads((aside / "summary.json").read_text())
        assert kept["fair_pseudo_regret"]["mean"] == old[job]
        assert len(read_runs([aside])) == 1  # asked for by its name, it is shown

    code, out, err = again(*words, "hydra.sweep.dir=sweep")
    assert (code, err) == (0, "")
    assert "All jobs: 6 skipped" in out
    assert played(folder) == after

    assert len((folder / "results.csv").read_text().splitlines()) == 1 + 6
    assert {run.place for run in read_runs([folder])} == set(before)
    assert len(read_picks([folder])) == 3  # of two seeds each


def test_a_job_whose_data_are_gone_fails_and_keeps_its_results(again, tmp_path):
    for name in ("a", "b"):
        lines = "".join(f"{i % 2},{i},{i * i % 7}\n" for i in range(40))
        (tmp_path / f"{name}.csv").write_text(f"g,r,x\n{lines}")
    words = ["-m", "policy=greedy", "environment=table", "environment.path=a.csv,b.csv"]
    words += ["environment.group=g", "environment.reward=r", "+environment.columns={x:null}"]
    words += [*SMALL, "hydra.sweep.dir=sweep"]
    assert again(*words)[0] == 0
    before = played(tmp_path / "sweep")
    (tmp_path / "a.csv").unlink()
    code, out, err = again(*words)
    assert code == 1
    assert "there is no file a.csv" in err
    assert "All jobs: 1 skipped, 1 failed" in out
    assert played(tmp_path / "sweep") == before
    assert len((tmp_path / "sweep" / "results.csv").read_text().splitlines()) == 1 + 1


def test_a_single_run_says_what_changed(again, plugins, tmp_path):
    file = rank(plugins, "one")
    words = ["policy=fair_greedy", "policy/rank=one", *SMALL, "hydra.run.dir=run"]
    again(*words)
    before = {path.name for path in (tmp_path / "run").iterdir()}
    edit(file, "1 - 1.0 *", "0 + 1.0 *")
    _, out, err = again(*words)
    (old,) = tmp_path.glob("run.old-*")
    line = f"played again: plugin rank_one.py changed; the results before are in {old.name}\n"
    assert err == line
    assert re.search(r"results  run\n", out)
    assert {path.name for path in old.iterdir()} == before
    assert not list(tmp_path.rglob(".lock"))
