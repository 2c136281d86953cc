"""Sweeps given again after an edit: exactly the jobs that the edit concerns are played again."""

import json
import linecache
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairbandit import registry
from fairbandit.audit.picks import read_picks
from fairbandit.cli.dashboard import link_runs
from fairbandit.run import gather

RANK = """
from fairbandit import register
from fairbandit.parts import EmpiricalCdf
{imports}

@register("rank", "{name}")
class Mine(EmpiricalCdf):
    '''Mine.'''
    def _index(self, candidates):
        return 1 - {factor} * super()._index(candidates)
"""

SMALL = ["rounds=12", "replicas=2"]
NAME = "hydra.sweep.dir=sweep"


@pytest.fixture
def plugins(tmp_path, monkeypatch, clean):
    """A folder of two ranks, the second of which has a helper with a helper."""
    folder = tmp_path / "plugins_here"
    (folder / "tools").mkdir(parents=True)
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(folder))
    (folder / "rank_one.py").write_text(RANK.format(name="one", imports="", factor=1.0))
    text = RANK.format(name="two", imports="import _helper", factor="_helper.factor()")
    (folder / "rank_two.py").write_text(text)
    (folder / "_helper.py").write_text(
        "def factor():\n    from tools.numbers_here import FACTOR\n    return FACTOR\n"
    )
    (folder / "tools" / "numbers_here.py").write_text("FACTOR = 1.0\n")
    (folder / "unused.py").write_text("NUMBER = 1\n")
    return folder


@pytest.fixture
def again(command, tmp_path, plugins) -> Callable[..., tuple[set[str], str]]:
    """Gives a command as a new process would: the jobs that were played, and what was said."""

    def run(*words: str) -> tuple[set[str], str]:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
                del sys.modules[name]
        for classes in registry._registry.values():
            for name, cls in list(classes.items()):
                if cls.__module__ in ("rank_one", "rank_two"):
                    del classes[name]
        linecache.clearcache()
        before = played(tmp_path)
        code, out, err = command(*words)
        assert code == 0, err
        after = played(tmp_path)
        new = {job for job, when in after.items() if before.get(job) != when}
        found = re.search(r"(\d+) skipped", out)
        assert int(found[1] if found else 0) == len(after) - len(new)
        return new, err

    return run


def played(folder: Path) -> dict[str, int]:
    """When each job of the sweep was finished."""
    jobs = (path for path in folder.glob("sweep/*/summary.json") if ".old-" not in str(path))
    return {path.parent.name: path.stat().st_mtime_ns for path in jobs}


def regrets(folder: Path) -> dict[str, float]:
    """The fair pseudo-regret of each job."""
    return {
        path.parent.name: json.loads(path.read_text())["fair_pseudo_regret"]["mean"]
        for path in folder.glob("*/summary.json")
        if ".old-" not in str(path)
    }


def replaced(folder: Path) -> list[str]:
    return sorted(re.sub(r"\.old-\w+", "", path.name) for path in folder.glob("sweep/*.old-*"))


def edit(file: Path, old: str, new: str) -> None:
    assert len(old) == len(new)  # nor does the size tell
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_an_edit_of_a_plugin_concerns_the_jobs_that_use_it(again, plugins, tmp_path, command):
    words = ["-m", "policy=fair_greedy", "policy/rank=one,two,empirical_cdf", "seed=0,1", *SMALL]
    words.append(NAME)
    jobs = {
        rank: {f"policy-fair_greedy_rank-{rank}_seed-{seed}_rounds-12_replicas-2" for seed in "01"}
        for rank in ("one", "two", "empirical_cdf")
    }
    everything = set().union(*jobs.values())
    assert again(*words) == (everything, "")
    assert again(*words) == (set(), "")

    edit(plugins / "rank_one.py", "1 - 1.0 *", "0 + 1.0 *")
    new, err = again(*words)
    assert new == jobs["one"]
    assert err.count("is played again: plugin rank_one.py changed; the results before are in ") == 2
    assert err.count("\n") == 2

    edit(plugins / "tools" / "numbers_here.py", "1.0", "0.5")
    new, err = again(*words)
    assert new == jobs["two"]
    assert err.count("plugin tools/numbers_here.py changed;") == 2

    edit(plugins / "unused.py", "1", "2")
    assert again(*words) == (set(), "")
    folder = tmp_path / "sweep"
    assert replaced(tmp_path) == sorted(jobs["one"] | jobs["two"])
    assert command(*words[:-1], "hydra.sweep.dir=anew")[0] == 0
    assert regrets(folder) == regrets(tmp_path / "anew")

    rows = (folder / "results.csv").read_text().splitlines()
    assert len(rows) == 1 + 6
    configs, results = gather.gather([folder])
    assert {row["folder"] for row in results} == everything == set(played(tmp_path))
    assert len(configs) == 6
    assert len(read_picks([folder])) == 6
    (tmp_path / "links").mkdir()
    link_runs([folder], tmp_path / "links")
    assert {link.resolve().name for link in (tmp_path / "links").iterdir()} == everything
    (old,) = folder.glob("policy-fair_greedy_rank-one_seed-0_*.old-*")
    assert len(gather.gather([old])[0]) == 1  # asked for by its name, it is shown


def test_an_edit_of_a_data_file_concerns_the_jobs_that_read_it(again, tmp_path):
    lines = "".join(f"{i % 2},{i},{i * i % 7}\n" for i in range(40))
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"g,r,x\n{lines}")
    words = ["-m", "policy=fair_greedy", "environment=table", "environment.path=a.csv,b.csv"]
    words += ["environment.group=g", "environment.reward=r", "+environment.columns={x:null}"]
    words += ["seed=0,1,2", *SMALL, NAME]
    everything, _ = again(*words)
    assert len(everything) == 6
    assert again(*words) == (set(), "")
    edit(tmp_path / "a.csv", ",39,", ",93,")
    new, err = again(*words)
    assert new == {job for job in everything if "environment.path-a.csv" in job}
    assert err.count("data a.csv changed; the results before are in ") == 3
    assert again(*words) == (set(), "")

    # without its data a job cannot be played again: the results stay, and count for nothing
    (tmp_path / "a.csv").unlink()
    kept = played(tmp_path)
    with pytest.raises(AssertionError, match="3 jobs of this sweep failed"):
        again(*words)
    assert played(tmp_path) == kept
    assert len((tmp_path / "sweep" / "results.csv").read_text().splitlines()) == 1 + 3


def test_a_new_default_of_a_plugin_is_no_other_run(again, plugins, tmp_path):
    text = (plugins / "rank_one.py").read_text()
    text = text.replace(
        "    def _index",
        "    def __init__(self, *, shift: float = 0.1) -> None:\n        self.shift = shift\n"
        "    def _index",
    )
    (plugins / "rank_one.py").write_text(text)
    words = ["-m", "policy=fair_greedy", "policy/rank=one,identity", *SMALL, NAME]
    again(*words)
    edit(plugins / "rank_one.py", "0.1", "0.2")
    new, err = again(*words)
    assert len(new) == 1
    assert "policy.rank.shift: 0.1 there, 0.2 here, plugin rank_one.py changed; the results" in err


def test_a_single_run_says_what_changed(again, plugins, tmp_path):
    words = ["policy=fair_greedy", "policy/rank=one", *SMALL, "hydra.run.dir=run"]
    again(*words)
    edit(plugins / "rank_one.py", "1 - 1.0 *", "0 + 1.0 *")
    _, err = again(*words)
    (old,) = tmp_path.glob("run.old-*")
    line = f"played again: plugin rank_one.py changed; the results before are in {old.name}\n"
    assert err == line
    assert {path.name for path in old.iterdir()} == {
        path.name for path in (tmp_path / "run").iterdir()
    } - {path.name for path in (tmp_path / "run").glob("events*")} | {
        path.name for path in old.glob("events*")
    }
    assert not list(tmp_path.rglob(".lock"))
