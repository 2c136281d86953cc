import os
import sys
import sysconfig
from pathlib import Path

import pytest

import fairbandit
from fairbandit.cli.main import main
from fairbandit.registry import _registry


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs the command line in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = 0
        try:
            main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
            if isinstance(left.code, str):
                print(left.code, file=sys.stderr)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def clean(monkeypatch):
    """Undoes what loading plugins does to this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = {kind: dict(classes) for kind, classes in _registry.items()}
    for kind, classes in known.items():
        monkeypatch.setitem(_registry, kind, classes)
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    modules = set(sys.modules)
    yield
    # plugins alone: a library's extension module does not bear being imported twice
    kept = (*sysconfig.get_paths().values(), str(Path(fairbandit.__file__).parent))
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and not file.startswith(kept):
            del sys.modules[name]


RANK = """
from fairbandit import register
from fairbandit.ranks import Identity

@register("rank", "{name}")
class Mine(Identity):
    '''Mine.'''
    def __init__(self, *, weight: float{default}) -> None:
        self.weight = weight
    def _index(self, scored):
        return {index}
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch, clean):
    """Writes a rank of the user's own to a folder that FAIRBANDIT_PLUGINS names."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(folder))

    def write(name, default=" = 3.0", index="-self.weight * scored.scores.value"):
        file = folder / f"plugin_{name}.py"
        file.write_text(RANK.format(name=name, default=default, index=index), encoding="utf-8")
        return file

    return write
