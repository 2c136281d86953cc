import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from fairbandit import plugins, registry
from fairbandit.errors import FairbanditError
from fairbandit.plugins import load_plugins

pytestmark = pytest.mark.usefixtures("clean")

PART = """
from fairbandit import register
from fairbandit.parts import Identity

@register("rank", "{name}")
class Mine(Identity):
    \"\"\"Mine.\"\"\"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = tmp_path / "mine"
    made.mkdir()
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(made))
    return made


def test_files_of_named_folders_are_loaded_once(folder):
    (folder / "plugin_a.py").write_text(PART.format(name="mine_a"))
    (folder / "_private.py").write_text("raise RuntimeError")
    load_plugins()
    load_plugins()
    assert plugins.folder_of(registry.lookup("rank", "mine_a")) == folder
    assert plugins.folder_of(registry.lookup("rank", "identity")) is None
    assert plugins.folder_of(dict) is None
    assert sys.path.count(str(folder)) == 1
    assert os.environ["PYTHONPATH"].split(os.pathsep).count(str(folder)) == 1


def test_several_folders_and_relative_ones(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"plugin_{name}.py").write_text(PART.format(name=f"mine_{name}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", os.pathsep.join(["one", str(tmp_path / "two"), ""]))
    load_plugins()
    assert {"mine_one", "mine_two"} <= set(registry.names("rank"))
    monkeypatch.chdir(tmp_path / "one")
    load_plugins()  # as a job in another working directory does


def test_the_working_directory_is_never_searched(tmp_path, monkeypatch):
    (tmp_path / "plugins").mkdir()
    for place in (tmp_path, tmp_path / "plugins"):
        (place / f"plugin_cwd_{len(place.parts)}.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    load_plugins()


def test_a_missing_folder(monkeypatch):
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", "no/such/folder")
    with pytest.raises(FairbanditError, match="FAIRBANDIT_PLUGINS names 'no/such/folder'"):
        load_plugins()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", "SyntaxError: invalid syntax"),
        (PART.format(name="identity"), "two classes are registered as rank 'identity'"),
    ],
)
def test_an_error_names_the_file(folder, source, reason):
    file = folder / "plugin_broken.py"
    file.write_text(source)
    with pytest.raises(FairbanditError) as caught:
        load_plugins()
    message = str(caught.value)
    assert str(file) in message
    assert reason in message
    assert "\n" not in message


@pytest.mark.parametrize("stem", ["json", "fairbandit"])
def test_the_name_of_another_module_is_refused(folder, stem):
    (folder / f"{stem}.py").write_text("")
    with pytest.raises(FairbanditError, match="that is the name of another module") as caught:
        load_plugins()
    assert str(folder / f"{stem}.py") in str(caught.value)


def entry_points(*values: str) -> Callable[..., list[EntryPoint]]:
    return lambda *, group: [EntryPoint(f"entry{i}", v, group) for i, v in enumerate(values)]


def test_entry_points(tmp_path, monkeypatch):
    (tmp_path / "package_with_parts.py").write_text(PART.format(name="mine_entry"))
    (tmp_path / "package_of_files").mkdir()
    (tmp_path / "package_of_files" / "__init__.py").write_text("from . import inside")
    (tmp_path / "package_of_files" / "inside.py").write_text(PART.format(name="mine_inside"))
    monkeypatch.syspath_prepend(tmp_path)
    found = entry_points("package_with_parts", "package_of_files.inside:Mine")
    monkeypatch.setattr(plugins, "entry_points", found)
    load_plugins()
    for name, place in {"entry": "package_with_parts.py", "inside": "package_of_files"}.items():
        assert plugins.folder_of(registry.lookup("rank", f"mine_{name}")) == tmp_path / place


def test_a_broken_entry_point_names_itself(tmp_path, monkeypatch):
    (tmp_path / "package_broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "entry_points", entry_points("package_broken:thing"))
    message = "entry0 = 'package_broken:thing' does not load: ZeroDivisionError: division by zero"
    with pytest.raises(FairbanditError, match=message):
        load_plugins()
