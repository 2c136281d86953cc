import os
import sys
import sysconfig
from pathlib import Path

import pytest

import fairbandit
from fairbandit import registry
from fairbandit.cli.main import main
from fairbandit.conformance import report


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs the command line in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "TIMED", 30)  # what a round costs is not tested with it

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
    known = {kind: dict(classes) for kind, classes in registry._registry.items()}
    for kind, classes in known.items():
        monkeypatch.setitem(registry._registry, kind, classes)
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    modules = set(sys.modules)
    yield
    # plugins alone: a library's extension module does not bear being imported twice
    kept = (*sysconfig.get_paths().values(), str(Path(fairbandit.__file__).parent))
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and not file.startswith(kept):
            del sys.modules[name]
