"""What a finished run rests on, and what becomes of it when that changes."""

import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from fairbandit import build, registry
from fairbandit import plugins as loading
from fairbandit.environments import CensusGender, Simulation, Table, table
from fairbandit.errors import FairbanditError
from fairbandit.plugins import load_plugins
from fairbandit.registry import register
from fairbandit.run import execute as executing
from fairbandit.run import hashes, identity, sources
from fairbandit.run.execute import execute
from fairbandit.run.folder import claim
from fairbandit.run.settings import settings
from tests.cli.conftest import clean
from tests.environments.data import arguments, people, write
from tests.plugins.edited import edit, forget, rank

__all__ = ["clean"]

Sweep = Callable[[], list[int]]


@pytest.fixture
def folder(tmp_path, monkeypatch, clean):
    """A folder of plugins, and a cache of one's own."""
    made = tmp_path / "plugins_here"
    made.mkdir()
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(made))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hashes, "SETTLED", -(10**12))  # every version is settled
    return made


@pytest.fixture
def sweep(tmp_path, config, folder) -> Callable[..., list[int]]:
    """Plays some runs as a new process would; says which of them were played."""

    def play(*changes: dict[str, Any]) -> list[int]:
        forget(tmp_path)
        load_plugins()
        new: list[int] = []
        for number, change in enumerate(changes):
            begun = partial(_note, new, number)
            execute(
                {**config, "rounds": 12, **change}, tmp_path / "sweep" / str(number), started=begun
            )
        return new

    return play


def _note(new: list[int], number: int, where: str) -> None:
    new.append(number)


def ranked(*names: str) -> list[dict[str, Any]]:
    """Two runs of each rank."""
    return [
        {"policy": {"split": "full", "estimator": "ridge", "rank": name}, "seed": seed}
        for name in names
        for seed in (0, 1)
    ]


def regret(folder: Path) -> float:
    found: float = json.loads((folder / "summary.json").read_text())["fair_pseudo_regret"]["mean"]
    return found


def test_an_edit_of_a_plugin_or_of_its_helpers(sweep, folder, tmp_path):
    one = rank(folder, "one")
    rank(folder, "two", imports="import _helper", factor="_helper.factor()")
    inner = "def factor():\n    from tools.numbers_here import FACTOR\n    return FACTOR\n"
    (folder / "_helper.py").write_text(inner)
    (folder / "tools").mkdir()
    (folder / "tools" / "numbers_here.py").write_text("FACTOR = 1.0\n")
    (folder / "unused.py").write_text("NUMBER = 1\n")
    jobs = ranked("one", "two", "empirical_cdf")
    assert sweep(*jobs) == [0, 1, 2, 3, 4, 5]
    assert sweep(*jobs) == []
    edit(one, "1 - 1.0 *", "0 + 1.0 *")
    assert sweep(*jobs) == [0, 1]
    edit(folder / "tools" / "numbers_here.py", "1.0", "0.0")
    assert sweep(*jobs) == [2, 3]
    edit(folder / "unused.py", "1", "2")
    assert sweep(*jobs) == []
    anew = tmp_path / "sweep"
    anew.rename(tmp_path / "before")
    assert sweep(*jobs) == [0, 1, 2, 3, 4, 5]
    for number in range(6):
        assert regret(tmp_path / "before" / str(number)) == regret(anew / str(number))
    assert len(list((tmp_path / "before").glob("*.old-*"))) == 4


def test_an_edit_of_a_data_file(sweep, folder, tmp_path, monkeypatch):
    worlds = [arguments(write(tmp_path / name, people())) for name in ("a.csv", "b.parquet")]
    jobs = [{"environment": world, "seed": seed} for world in worlds for seed in (0, 1, 2)]
    assert sweep(*jobs) == [0, 1, 2, 3, 4, 5]
    with monkeypatch.context() as patch:
        patch.setattr(table, "load_population", lambda *_: pytest.fail("loaded data"))
        patch.setattr(hashes, "sha256", lambda *_: pytest.fail("hashed again"))
        assert sweep(*jobs) == []
    text = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(text.replace("p7,a", "p7,b").replace("p7,c", "p7,b"))
    assert sweep(*jobs) == [0, 1, 2]
    (tmp_path / "b.parquet").touch()
    assert sweep(*jobs) == []


def test_a_summary_holds_the_identity(sweep, folder, tmp_path, config):
    rank(folder, "one", imports="import _helper", factor="_helper.ONE")
    (folder / "_helper.py").write_text("ONE = 1.0\n")
    world = arguments(write(tmp_path / "people.csv", people()))
    sweep({**ranked("one")[0], "environment": world})
    found = json.loads((tmp_path / "sweep" / "0" / "summary.json").read_text())["identity"]
    assert set(found) == {"config", "versions", "package", "plugins", "data"}
    assert found["plugins"] == {
        name: hashes.sha256(folder / name) for name in ("_helper.py", "rank_one.py")
    }
    path = tmp_path / "people.csv"
    assert found["data"] == {str(path): hashes.sha256(path)}
    assert found["config"]["seed"] == 0
    assert not {"threads", "resume"} & set(found["config"])


def test_results_without_an_identity_are_replaced(sweep, folder, tmp_path):
    sweep({})
    path = tmp_path / "sweep" / "0" / "summary.json"
    summary = json.loads(path.read_text())
    since = ("identity", "files", "checksum")
    path.write_text(json.dumps({k: v for k, v in summary.items() if k not in since}))
    assert sweep({}) == [0]
    assert sweep({}) == []
    assert len(list((tmp_path / "sweep").glob("0.old-*"))) == 1


@pytest.mark.parametrize(
    ("target", "value", "told"),
    [
        ("fairbandit.run.identity._own_files", lambda: "other", "fairbandit's own files changed"),
        ("fairbandit.version.VERSION", "9.9", 'fairbandit: "0.1.0" there, "9.9" here'),
    ],
)
def test_the_package_itself_counts(config, tmp_path, monkeypatch, target, value, told):
    execute(config, tmp_path / "run")
    monkeypatch.setattr(target, value)
    said: list[str] = []
    execute(config, tmp_path / "run", replaced=said.append)
    (old,) = tmp_path.glob("run.old-*")
    assert said == [f"{told}; the results before are in {old.name}"]


def test_versions_of_torch_and_numpy_concern_checkpoints_alone(config, tmp_path, monkeypatch):
    execute(config, tmp_path)
    monkeypatch.setattr("fairbandit.run.summary.installed", lambda name: "0.0")
    execute(config, tmp_path, started=lambda _: pytest.fail("played again"))


def test_own_files_are_hashed_by_content(tmp_path, monkeypatch):
    package = tmp_path / "fairbandit"
    (package / "maths").mkdir(parents=True)
    for name in ("__init__.py", "maths/a.py"):
        (package / name).write_text("x = 1\n")
    monkeypatch.setattr("fairbandit.version.__file__", str(package / "__init__.py"))
    seen = set()
    for change in (None, ("maths/a.py", "x = 2\n"), ("maths/b.py", "x = 1\n"), ("notes.txt", "n")):
        if change is not None:
            (package / change[0]).write_text(change[1])
        seen.add(identity._own_files.__wrapped__())
    assert len(seen) == 3


def test_replacing_nothing_when_the_new_run_cannot_begin(sweep, folder, tmp_path):
    file = rank(folder, "one")
    sweep(*ranked("one"))
    before = regret(tmp_path / "sweep" / "0")
    text = file.read_text()
    file.write_text(text + "    def bind(self, problem):\n        raise ValueError('too few')\n")
    with pytest.raises(ValueError, match="too few"):
        sweep(*ranked("one"))
    assert regret(tmp_path / "sweep" / "0") == before
    assert not list((tmp_path / "sweep").glob("*.old-*"))


def test_a_folder_that_holds_more_than_the_run_is_not_moved(config, tmp_path, monkeypatch):
    execute(config, tmp_path / "run")
    monkeypatch.setattr(identity, "_own_files", lambda: "other")
    monkeypatch.chdir(tmp_path / "run")
    with pytest.raises(FairbanditError, match="Choose another output folder"):
        execute(config, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    execute(config, tmp_path / "run" / "another")
    with pytest.raises(FairbanditError, match=r"it holds .*another too"):
        execute(config, tmp_path / "run")


def test_data_that_change_while_they_are_read(config, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write(tmp_path / "people.csv", people())

    def reads(described: Any) -> Any:
        made = build(described)
        if described.get("name") == "table":
            write(path, people(seed=1))
        return made

    monkeypatch.setattr(executing, "build", reads)
    with pytest.raises(FairbanditError, match=r"people.csv changed while it was read; run again"):
        execute({**config, "environment": arguments(path)}, tmp_path / "run")
    assert not list(tmp_path.rglob("summary.json"))


def test_a_part_made_at_a_prompt_is_played_again(config, tmp_path, clean, monkeypatch):
    space: dict[str, Any] = {"__name__": "no_such_module", "Simulation": Simulation}
    exec("class Mine(Simulation):\n    '''Mine.'''\n", space)
    register("environment", "typed_in")(space["Mine"])
    said: list[str] = []
    for _ in range(2):
        execute({**config, "environment": {"name": "typed_in"}}, tmp_path, replaced=said.append)
    (line,) = said
    assert line.startswith("plugin no_such_module.py has no source that can be read; ")


def test_a_part_of_a_script_counts_by_its_file(config, tmp_path, clean, monkeypatch):
    register("environment", "of_this_file")(type("Mine", (Simulation,), {"__module__": __name__}))
    found = identity.identity(
        executing._policy(config["policy"]), {"name": "of_this_file"}, settings(config)
    )
    assert found["plugins"] == {"tests/run/test_identity.py": hashes.sha256(Path(__file__))}


FACTORY = """
from fairbandit import register
from fairbandit.parts import EmpiricalCdf

def make(name, factor):
    class Made(EmpiricalCdf):
        '''Made.'''
        def _index(self, candidates):
            return factor * super()._index(candidates)
    return register("rank", name)(Made)
"""


def test_a_part_rests_on_the_module_that_registers_it(folder):
    (folder / "_factory.py").write_text(FACTORY)
    for name in ("one", "two"):
        (folder / f"made_{name}.py").write_text(f"from _factory import make\nmake('{name}', 1.0)\n")
    load_plugins()
    for name in ("one", "two"):
        found = sources.sources([registry.lookup("rank", name)])
        assert set(found) == {"_factory.py", f"made_{name}.py"}


IMPORTS = {
    "import pack.deep.module": {"pack/__init__.py", "pack/deep/__init__.py", "pack/deep/module.py"},
    "from pack import sibling": {"pack/__init__.py", "pack/sibling.py"},
    "from pack.deep import module as m": {
        *("pack/__init__.py", "pack/deep/__init__.py", "pack/deep/module.py"),
    },
    "from pack.up import *": {"pack/__init__.py", "pack/up.py", "pack/sibling.py"},
    "import loose.module": {"loose/module.py"},
    "def later():\n    import _private": {"_private.py"},
    "if False:\n    import _private": {"_private.py"},
    "import json, torch.nn, numpy as np": set(),
    "import _broken_and_not_imported_yet": {"_broken_and_not_imported_yet.py"},
}


@pytest.mark.parametrize("line", IMPORTS, ids=lambda line: line.split("\n")[-1].strip())
def test_what_a_plugin_imports_counts(folder, line):
    (folder / "pack" / "deep").mkdir(parents=True)
    (folder / "loose").mkdir()
    texts = {
        "pack/__init__.py": "",
        "pack/deep/__init__.py": "",
        "pack/deep/module.py": "",
        "pack/sibling.py": "",
        "pack/up.py": "from . import sibling\n",
        "loose/module.py": "",
        "_private.py": "",
        "_broken_and_not_imported_yet.py": "",
        "_other.py": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    rank(folder, "one", imports=line)
    load_plugins()
    (folder / "_broken_and_not_imported_yet.py").write_text("def (")
    found = sources.sources([registry.lookup("rank", "one")])
    assert set(found) == {"rank_one.py", *IMPORTS[line]}


@pytest.mark.parametrize(
    "line",
    [
        "import importlib\nimportlib.import_module('_pri' + 'vate')",
        "from importlib import import_module",
        "__import__('_pri' + 'vate')",
        "from fairbandit import build",
        "from fairbandit import registry",
        "import fairbandit\ndef later():\n    return fairbandit.registry.lookup('rank', 'two')",
    ],
)
def test_a_module_that_looks_others_up_rests_on_all_plugins(folder, line):
    for name in ("_private", "unused"):
        (folder / f"{name}.py").write_text("")
    rank(folder, "one", imports=line)
    load_plugins()
    found = sources.sources([registry.lookup("rank", "one")])
    assert set(found) >= {"rank_one.py", "_private.py", "unused.py"}


def test_what_counts_is_what_this_process_runs(folder):
    """A plugin that is edited in the middle of a sweep is the old one for the rest of it."""
    file = rank(folder, "one")
    load_plugins()
    before = sources.sources([registry.lookup("rank", "one")])
    edit(file, "1.0", "2.0")
    load_plugins()
    assert sources.sources([registry.lookup("rank", "one")]) == before
    assert before["rank_one.py"] != hashes.sha256(file)


def test_the_modules_of_a_package_with_an_entry_point(tmp_path, monkeypatch, clean):
    package = tmp_path / "package_of_ranks"
    (package / "more").mkdir(parents=True)
    (package / "__init__.py").write_text("from package_of_ranks import ranks\n")
    (package / "ranks.py").write_text("from .more.tools import FACTOR\n")
    (package / "more" / "__init__.py").write_text("")
    (package / "more" / "tools.py").write_text("FACTOR = 1.0\n")
    rank(package, "one", imports="from .more.tools import FACTOR", factor="FACTOR")
    (package / "__init__.py").write_text("from package_of_ranks import rank_one\n")
    (tmp_path / "beside.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint("mine", "package_of_ranks", loading.GROUP)]
    monkeypatch.setattr(loading, "entry_points", lambda *, group: entries)
    load_plugins()
    found = sources.sources([registry.lookup("rank", "one")])
    names = ("__init__", "more/__init__", "more/tools", "rank_one")
    assert set(found) == {f"package_of_ranks/{name}.py" for name in names}


def test_installed_packages_within_a_plugin_folder_are_no_plugins(folder):
    place = folder / "venv" / "lib" / "site-packages"
    assert loading.is_plugin("mine", str(folder / "mine.py")) is False  # nothing is loaded yet
    rank(folder, "one")
    load_plugins()
    assert loading.is_plugin("mine", str(folder / "mine.py"))
    assert not loading.is_plugin("other", str(place / "other.py"))
    assert not loading.is_plugin("fairbandit.parts", str(folder / "fairbandit" / "parts.py"))


def test_hashes_are_kept_once_a_file_is_settled(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "data.csv"
    path.write_text("1")
    count: list[Path] = []
    real = hashes.sha256

    def counted(file: Path) -> str:
        count.append(file)
        return real(file)

    monkeypatch.setattr(hashes, "sha256", counted)
    first = [hashes.file_hash(path) for _ in range(2)]
    assert len(count) == 2  # it has just changed, and may change again unseen
    monkeypatch.setattr(hashes, "SETTLED", -(10**12))
    assert [*first, *(hashes.file_hash(path) for _ in range(3))] == [real(path)] * 5
    assert len(count) == 3
    stat = path.stat()
    path.write_text("2")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as a copy that keeps times does
    assert hashes.file_hash(path) == real(path)
    (kept,) = (tmp_path / "cache").rglob("*.json")
    for damaged in (b"", b"[1]", kept.read_bytes()[:-5]):
        kept.write_bytes(damaged)
        assert hashes.file_hash(path) == real(path)
    assert hashes.file_hash(tmp_path / "none.csv") is None
    assert hashes.file_hash(tmp_path) is None


def test_the_data_files_of_environments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.npy").write_bytes(b"")
    assert Simulation.data_files(
        {"path": "here.npy", "other": "gone.npy", "x": 3, "y": "y" * 999}
    ) == [Path("here.npy")]
    assert Table.data_files({"path": "a.csv", "scaler_path": "./a.csv"}) == [Path("a.csv")]
    assert Table.data_files({"path": "a.csv", "scaler_path": "b.csv"}) == [
        Path("a.csv"),
        Path("b.csv"),
    ]
    census = {"root": "r", "year": 2018, "states": ["VT"]}
    assert CensusGender.data_files({**census, "scaler_year": 2016, "scaler_states": None}) == [
        Path("r/2018/1-Year/psam_p50.csv"),
        Path("r/2016/1-Year/ss16pvt.csv"),
    ]
    assert len(CensusGender.data_files({**census, "scaler_year": None, "scaler_states": None})) == 1


def test_an_environment_that_speaks_of_its_data_is_asked(config, tmp_path, monkeypatch):
    monkeypatch.setattr(Simulation, "fingerprint", lambda self: "one")
    execute(config, tmp_path / "run")
    execute(config, tmp_path / "run", replaced=lambda _: pytest.fail("replaced"))
    monkeypatch.setattr(Simulation, "fingerprint", lambda self: "two")
    said: list[str] = []
    execute(config, tmp_path / "run", replaced=said.append)
    assert said[0].startswith("data fingerprint changed; ")


def test_whoever_waits_for_a_folder_that_is_set_aside_gets_its_name(tmp_path):
    folder, entered = tmp_path / "run", threading.Event()

    def waits() -> None:
        with claim(folder, wait=True) as held:
            assert list(held.folder.iterdir()) == [folder / ".lock"]
            entered.set()

    with claim(folder) as held:
        (folder / "summary.json").write_text("{}")
        waiting = threading.Thread(target=waits)
        waiting.start()
        aside = held.set_aside()
    waiting.join(30)
    assert entered.is_set()
    assert [path.name for path in aside.iterdir()] == ["summary.json"]
    assert sorted(tmp_path.iterdir()) == sorted([aside, folder])
    assert not (folder / ".lock").exists()


def test_modules_of_this_process_are_found_by_the_same_means(folder):
    rank(folder, "one")
    load_plugins()
    assert sum(isinstance(finder, loading._Finder) for finder in sys.meta_path) == 1
    assert not list(folder.rglob("*.pyc"))
