"""The guides to plugins work as they stand, block by block, in a new user's folder."""

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow.csv
import pytest

from fairbandit import conformance, registry
from fairbandit.registry import plugins
from tests.docs.pages import GUIDES, RANK

SHORT = 30
"""So many rounds are played where the guides play hundreds."""


@pytest.fixture
def in_folder(tmp_path, monkeypatch, clean):
    """Puts a reader into an empty folder with every file that a guide shows."""

    def enter(guide):
        monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(guide.write(tmp_path)))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return enter


def run_tests(words: list[str]) -> int:
    """Runs `python -m pytest` in this process; its exit code."""
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "-c", "none.ini"]
    Path("none.ini").write_text("[pytest]\n")
    return int(pytest.main([*words, *options]))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_every_part_is_checked_and_every_test_is_run(guide):
    commands = "\n".join(map(" ".join, guide.commands))
    for kind, name in guide.parts:
        assert f"fairbandit check {kind}={name}" in commands
    for file in guide.files:
        assert f"python -m pytest {file}" in commands or not file.startswith("test_")


LONG = {"estimator", "metric", "rank", "selector", "split"}
"""Guides that check several parts, or draw figures."""


@pytest.mark.long
@pytest.mark.parametrize(
    "guide",
    [
        pytest.param(guide, id=guide.name, marks=[pytest.mark.all] * (guide.name in LONG))
        for guide in GUIDES
    ],
)
def test_every_command_in_order(guide, in_folder, command):
    folder = in_folder(guide)
    for program, *words in guide.commands:
        if program == "fairbandit":
            shorter = [f"rounds={SHORT}" if word.startswith("rounds=") else word for word in words]
            code, out, err = command(*shorter)
            assert (code, err) == (0, ""), out + err
        elif program == "python" and words[0] == "-m":
            assert words[1] == "pytest"
            assert run_tests(words[2:]) == 0
    if guide.name == "metric":
        runs = pyarrow.csv.read_csv(folder / "runs.csv").to_pylist()
        gaps = [run["mean"] for run in runs if run["measure"] == "gap"]
        assert len(gaps) == 2
        assert all(0 <= gap <= 1 for gap in gaps)
        assert [file.suffix for file in sorted(folder.rglob("metrics.*"))] == [".pdf", ".png"]


def test_a_rank_of_the_guide_needs_the_slack_that_it_states(in_folder):
    """Equal candidates tie with it, and not without, as the guide says."""
    folder, name = in_folder(RANK), "recency_cdf"
    plugins.load_plugins()
    (check,) = (one for one in conformance.checks("rank") if one.__name__.startswith("ties_"))
    check("rank", name)
    text = (folder / "my_plugins" / f"{name}.py").read_text()
    assert text.count("return Approximate(") == 1
    bare = text.replace("return Approximate(", "return _bare(")
    bare += "\n\ndef _bare(index, slack):\n    return index\n"
    (folder / "my_plugins" / "bare.py").write_text(bare.replace(f'"{name}"', '"bare"'))
    plugins.load_plugins()
    with pytest.raises(conformance.ConformanceError, match="equal candidates do not tie"):
        check("rank", "bare")


def test_the_package_of_the_guide(in_folder, command, monkeypatch):
    folder = in_folder(RANK)
    (table,) = tomllib.loads(RANK.files["my_ranks/pyproject.toml"])["project"][
        "entry-points"
    ].items()
    assert table == (plugins.GROUP, {"my_ranks": "my_ranks"})
    package = folder / "my_ranks" / "my_ranks"
    package.mkdir()
    (folder / "my_plugins" / "beta_cdf.py").rename(package / "beta_cdf.py")
    (package / "__init__.py").write_text("from my_ranks.beta_cdf import BetaCdf\n")
    monkeypatch.delenv("FAIRBANDIT_PLUGINS")
    monkeypatch.syspath_prepend(folder / "my_ranks")
    entry = EntryPoint("my_ranks", "my_ranks", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: [entry])
    assert command("policy/rank=beta_cdf", f"rounds={SHORT}", "replicas=2")[0] == 0
    assert registry.lookup("rank", "beta_cdf").__module__ == "my_ranks.beta_cdf"
