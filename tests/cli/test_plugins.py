import os
import sys
from importlib.metadata import EntryPoint

import pytest

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.registry import plugins
from fairbandit.registry.plugins import load_plugins

pytestmark = pytest.mark.usefixtures("clean")


def test_files_of_named_folders_are_loaded_once(plugin):
    folder = plugin("mine_a").parent
    (folder / "_private.py").write_text("raise RuntimeError")
    load_plugins()
    load_plugins()
    assert plugins.folder_of(registry.lookup("rank", "mine_a")) == folder
    assert plugins.folder_of(registry.lookup("rank", "identity")) is None
    assert plugins.folder_of(dict) is None
    assert sys.path.count(str(folder)) == 1
    assert os.environ["PYTHONPATH"].split(os.pathsep).count(str(folder)) == 1


def test_several_folders_and_relative_ones(plugin, tmp_path, monkeypatch):
    plugin("mine_one").rename(tmp_path / "plugin_one.py")
    plugin("mine_two")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", os.pathsep.join([".", str(tmp_path / "mine"), ""]))
    load_plugins()
    assert {"mine_one", "mine_two"} <= set(registry.names("rank"))
    monkeypatch.chdir(tmp_path / "mine")
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
    ("name", "source", "reason"),
    [
        ("broken", "1 / 0", "ZeroDivisionError: division by zero"),
        ("broken", "def (", "SyntaxError: invalid syntax"),
        ("identity", None, "two classes are registered as rank 'identity'"),
        ("json", "", "that is the name of another module"),
        ("fairbandit", "", "that is the name of another module"),
    ],
)
def test_an_error_names_the_file(plugin, name, source, reason):
    file = plugin(name)
    if source is not None:
        file = file.rename(file.with_name(f"{name}.py"))
        file.write_text(source)
    with pytest.raises(FairbanditError) as caught:
        load_plugins()
    message = str(caught.value)
    assert str(file) in message
    assert reason in message
    assert "\n" not in message


def test_entry_points(plugin, tmp_path, monkeypatch):
    places = {"mine_entry": tmp_path / "package_with_parts.py", "mine_inside": tmp_path / "package"}
    (tmp_path / "package").mkdir()
    plugin("mine_entry").rename(places["mine_entry"])
    plugin("mine_inside").rename(tmp_path / "package" / "inside.py")
    (tmp_path / "package" / "__init__.py").write_text("from . import inside")
    (tmp_path / "package_broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    values = ["package_with_parts", "package.inside:Mine"]
    found = [EntryPoint(f"entry{i}", value, plugins.GROUP) for i, value in enumerate(values)]
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: found)
    load_plugins()
    for name, place in places.items():
        assert plugins.folder_of(registry.lookup("rank", name)) == place
    found.append(EntryPoint("entry2", "package_broken:thing", plugins.GROUP))
    message = "entry2 = 'package_broken:thing' does not load: ZeroDivisionError: division by zero"
    with pytest.raises(FairbanditError, match=message):
        load_plugins()
