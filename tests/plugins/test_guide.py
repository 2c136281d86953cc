"""The guide to plugins works as it stands, block by block, in a new user's folder."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow.csv
import pytest

from fairbandit import plugins, registry
from tests import support

GUIDE = (support.REPOSITORY / "plugins" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
COMMANDS = [
    line for kind, _, text in BLOCKS if kind == "console" for line in text.splitlines() if line
]
FILES = {Path(name): text for kind, name, text in BLOCKS if name}


@pytest.fixture
def fresh_folder(tmp_path, monkeypatch, clean):
    """The folder of the guide, with every file that it shows."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(tmp_path / "my_plugins"))
    return tmp_path


def python(*words: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_guide_shows_what_it_speaks_of():
    assert set(map(str, FILES)) == {
        "my_plugins/beta_cdf.py",
        "my_plugins/centred_score.py",
        "test_beta_cdf.py",
        "compare.py",
        "my_ranks/pyproject.toml",
    }
    assert {command.split()[0] for command in COMMANDS} == {
        "export",
        "fairbandit",
        "python",
        "tensorboard",
    }
    assert len(FILES[Path("my_plugins/beta_cdf.py")].splitlines()) <= 30


def test_every_command_in_order(fresh_folder, command):
    for words in map(shlex.split, COMMANDS):
        if words[0] == "fairbandit":
            shorter = ["rounds=30" if word.startswith("rounds=") else word for word in words[1:]]
            code, _, err = command(*shorter)
            assert (code, err) == (0, ""), words
        elif words[0] == "python":
            assert "passed" in python(*words[1:], "-p", "no:cacheprovider", cwd=fresh_folder)
    runs = pyarrow.csv.read_csv(fresh_folder / "ranks.csv").to_pylist()
    assert [run["policy.rank.name"] for run in runs].count("beta_cdf") == 3
    assert len(runs) == 6
    shown = python("compare.py", cwd=fresh_folder)
    assert {line.split()[0] for line in shown.splitlines()} == {"empirical_cdf", "beta_cdf"}


def test_the_package_of_the_guide(fresh_folder, command, monkeypatch):
    (table,) = tomllib.loads(FILES[Path("my_ranks/pyproject.toml")])["project"][
        "entry-points"
    ].items()
    assert table == (plugins.GROUP, {"my_ranks": "my_ranks"})
    package = fresh_folder / "my_ranks" / "my_ranks"
    package.mkdir()
    (fresh_folder / "my_plugins" / "beta_cdf.py").rename(package / "beta_cdf.py")
    (package / "__init__.py").write_text("from my_ranks.beta_cdf import BetaCdf\n")
    monkeypatch.delenv("FAIRBANDIT_PLUGINS")
    monkeypatch.syspath_prepend(fresh_folder / "my_ranks")
    entry = EntryPoint("my_ranks", "my_ranks", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: [entry])
    assert command("policy/rank=beta_cdf", "rounds=20", "replicas=2")[0] == 0
    assert registry.lookup("rank", "beta_cdf").__module__ == "my_ranks.beta_cdf"
