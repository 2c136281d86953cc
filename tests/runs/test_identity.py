"""What a finished run rests on, and what becomes of it when that changes."""

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from fairbandit import compare, load, pooled
from fairbandit.environments import Simulation, Table
from fairbandit.errors import FairbanditError
from fairbandit.registry import plugins as loading
from fairbandit.registry import register
from fairbandit.registry.plugins import load_plugins
from fairbandit.runs import summary
from fairbandit.runs.execute import execute
from fairbandit.version import VERSION
from tests.cli.conftest import clean
from tests.environments.data import arguments, people, write
from tests.plugins.edited import edit, forget, rank

__all__ = ["clean"]


@pytest.fixture
def folder(tmp_path, monkeypatch, clean):
    """A folder of plugins, and a cache of one's own."""
    made = tmp_path / "plugins_here"
    made.mkdir()
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(made))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return made


@pytest.fixture
def sweep(tmp_path, config, folder) -> Callable[..., list[int]]:
    """Plays some runs as a new process would, and returns which of them were played."""

    def play(*changes: dict[str, Any]) -> list[int]:
        forget(tmp_path)
        summary._hash_of_modules.cache_clear()
        load_plugins()
        begun: list[str] = []
        new: list[int] = []
        for number, change in enumerate(changes):
            place = tmp_path / "sweep" / str(number)
            execute({**config, "rounds": 12, **change}, place, started=begun.append)
            new += [number] * (len(begun) - len(new))
        return new

    return play


def ranked(name: str, seeds: int = 1) -> list[dict[str, Any]]:
    """Runs of a rank."""
    policy = {"split": "full", "estimator": "ridge", "rank": name}
    return [{"policy": policy, "seed": seed} for seed in range(seeds)]


def regret(folder: Path) -> float:
    summary = json.loads((folder / "summary.json").read_text())
    return float(summary["metrics"]["fair_regret"]["mean"])


def test_an_edit_of_a_plugin_folder_plays_its_runs_again(sweep, folder, tmp_path):
    mine = rank(folder, "one")
    (folder / "tools").mkdir()
    (folder / "tools" / "unused.py").write_text("NUMBER = 1\n")
    jobs = [*ranked("one"), *ranked("empirical_cdf")]
    assert sweep(*jobs) == [0, 1]
    assert sweep(*jobs) == []
    edit(mine, "1 - 1.0 *", "0 + 1.0 *")
    assert sweep(*jobs) == [0]
    edit(folder / "tools" / "unused.py", "1", "2")  # any file of the folder counts
    assert sweep(*jobs) == [0]
    (tmp_path / "sweep").rename(tmp_path / "before")
    assert sweep(*jobs) == [0, 1]
    for number in ("0", "1"):
        assert regret(tmp_path / "before" / number) == regret(tmp_path / "sweep" / number)
    replaced = sorted((tmp_path / "before").glob("*.old-*"))
    assert len(replaced) == 2
    for old in replaced:
        assert {"summary.json", "curves.parquet", "rounds"} <= {path.name for path in old.iterdir()}


def test_runs_before_and_after_an_edit_of_a_plugin_are_two_settings(sweep, folder, tmp_path):
    one = rank(folder, "one")
    sweep(*ranked("one"))
    (tmp_path / "sweep").rename(tmp_path / "before")
    edit(one, "1 - 1.0 *", "0 + 1.0 *")
    sweep(ranked("one", 2)[1])
    table = load(tmp_path)
    assert table["plugins"].nunique() == 2
    found = pooled(table)
    assert found["n"].max() == 3
    labels = [*found["label"].unique()]
    assert len(labels) == 2
    assert all("plugins=" in label for label in labels)
    with pytest.raises(FairbanditError, match="no other run shares an environment"):
        compare(table, labels[0])


def test_an_edit_of_a_data_file(sweep, folder, tmp_path, monkeypatch):
    worlds = [arguments(write(tmp_path / name, people())) for name in ("a.csv", "b.parquet")]
    jobs = [{"environment": world} for world in worlds]
    assert sweep(*jobs) == [0, 1]
    with monkeypatch.context() as patch:
        patch.setattr(Table, "__init__", lambda *_, **__: pytest.fail("loaded data"))
        assert sweep(*jobs) == []
    text = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(text.replace("p7,a", "p7,b").replace("p7,c", "p7,b"))
    assert sweep(*jobs) == [0]
    (tmp_path / "b.parquet").touch()
    assert sweep(*jobs) == []


def test_the_version_of_the_package_counts(config, tmp_path, monkeypatch):
    execute(config, tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    monkeypatch.setattr("fairbandit.version.VERSION", "9.9")
    lines: list[str] = []
    execute(config, tmp_path / "run", started=lines.append)
    (old,) = tmp_path.glob("run.old-*")
    assert (tmp_path / "run" / "notes.txt").exists()
    why = f'version: "{VERSION}" there, "9.9" here'
    assert lines == [f"played again: {why}; the results before are in {old.name}"]


def test_replacing_nothing_when_the_new_run_cannot_begin(sweep, folder, tmp_path):
    file = rank(folder, "one")
    sweep(*ranked("one"))
    before = regret(tmp_path / "sweep" / "0")
    text = file.read_text()
    file.write_text(text + '    needs = frozenset({"nothing"})\n')
    with pytest.raises(FairbanditError, match=r"rank 'one' .*nothing"):
        sweep(*ranked("one"))
    assert regret(tmp_path / "sweep" / "0") == before
    assert not list((tmp_path / "sweep").glob("*.old-*"))


def test_the_package_of_an_entry_point_is_a_plugin(tmp_path, monkeypatch, clean, sweep):
    package = tmp_path / "package_of_ranks"
    (package / "more").mkdir(parents=True)
    (package / "more" / "__init__.py").write_text("")
    (package / "more" / "tools.py").write_text("FACTOR = 1.0\n")
    rank(package, "one", imports="from .more.tools import FACTOR", factor="FACTOR")
    (package / "__init__.py").write_text("from package_of_ranks import rank_one\n")
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint("mine", "package_of_ranks", loading.GROUP)]
    monkeypatch.setattr(loading, "entry_points", lambda *, group: entries)
    assert sweep(*ranked("one")) == [0]
    assert sweep(*ranked("one")) == []
    edit(package / "more" / "tools.py", "1.0", "0.5")
    assert sweep(*ranked("one")) == [0]


def test_a_part_made_at_a_prompt_is_played_again(config, tmp_path, clean):
    space: dict[str, Any] = {"__name__": "no_such_module", "Simulation": Simulation}
    exec("class Mine(Simulation):\n    '''Mine.'''\n", space)
    register("environment", "typed_in")(space["Mine"])
    lines: list[str] = []
    for _ in range(2):
        execute({**config, "environment": {"name": "typed_in"}}, tmp_path, started=lines.append)
    assert lines[0] == ""
    assert lines[1].startswith("played again: plugins changed; ")
