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
from fairbandit.files.files import data_hash
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


def ranked(*names: str) -> list[dict[str, Any]]:
    """Two runs of each rank."""
    return [
        {"policy": {"split": "full", "estimator": "ridge", "rank": name}, "seed": seed}
        for name in names
        for seed in (0, 1)
    ]


def regret(folder: Path) -> float:
    summary = json.loads((folder / "summary.json").read_text())
    return float(summary["metrics"]["fair_regret"]["mean"])


def test_an_edit_of_a_plugin_folder_plays_its_runs_again(sweep, folder, tmp_path):
    one = rank(folder, "one")
    (folder / "tools").mkdir()
    (folder / "tools" / "unused.py").write_text("NUMBER = 1\n")
    jobs = ranked("one", "empirical_cdf")
    assert sweep(*jobs) == [0, 1, 2, 3]
    assert sweep(*jobs) == []
    edit(one, "1 - 1.0 *", "0 + 1.0 *")
    assert sweep(*jobs) == [0, 1]
    edit(folder / "tools" / "unused.py", "1", "2")  # any file of the folder counts
    assert sweep(*jobs) == [0, 1]
    assert sweep(*jobs) == []
    (tmp_path / "sweep").rename(tmp_path / "before")
    assert sweep(*jobs) == [0, 1, 2, 3]
    for number in range(4):
        runs = [tmp_path / name / str(number) for name in ("before", "sweep")]
        assert regret(runs[0]) == regret(runs[1])
    replaced = sorted((tmp_path / "before").glob("*.old-*"))
    assert len(replaced) == 4
    for old in replaced:
        assert {"summary.json", "curves.parquet", "rounds"} <= {path.name for path in old.iterdir()}


def test_runs_before_and_after_an_edit_of_a_plugin_are_two_settings(sweep, folder, tmp_path):
    one = rank(folder, "one")
    sweep(ranked("one")[0])
    (tmp_path / "sweep").rename(tmp_path / "before")
    edit(one, "1 - 1.0 *", "0 + 1.0 *")
    sweep(ranked("one")[1])
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
    jobs = [{"environment": world, "seed": seed} for world in worlds for seed in (0, 1, 2)]
    assert sweep(*jobs) == [0, 1, 2, 3, 4, 5]
    with monkeypatch.context() as patch:
        patch.setattr(Table, "__init__", lambda *_, **__: pytest.fail("loaded data"))
        assert sweep(*jobs) == []
    text = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(text.replace("p7,a", "p7,b").replace("p7,c", "p7,b"))
    assert sweep(*jobs) == [0, 1, 2]
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
    with pytest.raises(FairbanditError, match=r"needs \['nothing'\]"):
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
    assert sweep(*ranked("one")) == [0, 1]
    assert sweep(*ranked("one")) == []
    edit(package / "more" / "tools.py", "1.0", "0.5")
    assert sweep(*ranked("one")) == [0, 1]


def test_a_part_made_at_a_prompt_is_played_again(config, tmp_path, clean):
    space: dict[str, Any] = {"__name__": "no_such_module", "Simulation": Simulation}
    exec("class Mine(Simulation):\n    '''Mine.'''\n", space)
    register("environment", "typed_in")(space["Mine"])
    lines: list[str] = []
    for _ in range(2):
        execute({**config, "environment": {"name": "typed_in"}}, tmp_path, started=lines.append)
    assert lines[0] == ""
    assert lines[1].startswith("played again: plugins changed; ")


def test_the_fingerprint_is_of_the_files_that_parameters_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, b = Path("a.csv"), Path("b.csv")
    a.write_bytes(b"1")
    given = {"path": "a.csv", "other": "gone.npy", "x": 3, "y": "y" * 999}
    assert Simulation.fingerprint(given) == data_hash([a])
    assert Table.fingerprint({"path": "a.csv", "scaler_path": "./a.csv"}) == data_hash([a])
    both = {"path": "a.csv", "scaler_path": "b.csv"}
    assert Table.fingerprint(both) is None
    b.write_bytes(b"2")
    assert Table.fingerprint(both) == data_hash([a, b]) != data_hash([a])
