"""Every block of the pages works as it stands, in a new user's folder a page, only shorter."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from omegaconf import OmegaConf

from fairbandit.cli import job, tune
from fairbandit.cli.main import main
from tests import support
from tests.docs.experiments import OF_PAGES, check
from tests.docs.pages import EVERY, GUIDES, PAGES, README, Page, write

ROUNDS, REPLICAS = 20, 2
"""No run is longer, or has more replicas."""

SAID = {
    "docs/index.md": [r"^fair regret \d+\.\d ± "],
    "docs/online.md": [
        r" 10 rewards to come",
        r"^candidate +group +score +index +past +probability$",
        r"^[01]$",
    ],
    "docs/speed.md": [r"^each round was decided [23]\.\d times"],
    "docs/theory.md": ["th:regret"],
    "docs/tuning.md": ["^Best of 20 complete trials", "^Not dominated of 12 complete trials"],
}
"""What the snippets and the tools of some pages print."""

PROJECT = tomllib.loads((support.REPOSITORY / "pyproject.toml").read_text())["project"]


@pytest.fixture
def folder(tmp_path, monkeypatch, clean):
    """A folder like a new user's, with the table that the pages speak of, where runs are short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    draws = np.random.default_rng(0)
    rows = ["sex,income,age,hours,job"]
    for _ in range(300):
        sex, age, hours = draws.choice(["f", "m"]), draws.integers(18, 70), draws.integers(5, 60)
        trade = draws.choice(["clerk", "nurse", "smith"])
        income = 300 * hours + 20 * age + draws.integers(0, 500)
        rows.append(f"{sex},{income},{age},{hours},{trade}")
    write(tmp_path / "people.csv", "\n".join(rows) + "\n")
    execute = vars(job)["execute"]

    def shorter(config, *places, **options):
        rounds = min(config["rounds"] or ROUNDS, ROUNDS)
        replicas = min(config["replicas"], REPLICAS)
        return execute({**config, "rounds": rounds, "replicas": replicas}, *places, **options)

    monkeypatch.setattr(job, "execute", shorter)
    monkeypatch.setattr(tune, "execute", shorter)
    with patch.dict(os.environ):
        yield tmp_path


def summaries() -> set[Path]:
    return set(Path.cwd().rglob("summary.json"))


def of_trial_records(words: list[str]) -> list[str]:
    """A command on the US census, on few records that need not be fetched."""
    if not support.CENSUS.is_dir():
        pytest.skip("the census records are not beside this")
    return [
        *(word for word in words if "download" not in word and "states" not in word),
        f"environment.root={support.CENSUS}",
        "environment.states=[VT,WY]",
        "environment.scaler_states=[AL]",
        "environment.min_group_size=30",
    ]


def run(words: list[str]) -> None:
    """Runs `fairbandit` with these words in this process."""
    if any("=census_" in word for word in words):
        words = of_trial_records(words)
    if any(word.startswith("hydra/launcher=") for word in words):  # processes of their own
        words = [*words, f"rounds={ROUNDS}", f"replicas={REPLICAS}"]
    main(words)


def fairbandit(words: list[str]) -> None:
    """Runs a command and looks for what it is to leave."""
    if words[0] == "dashboard":
        return  # it waits for Ctrl-C; tests/dashboard runs it
    before = summaries()
    run(words)
    plays = not {"--help", "--cfg"} & set(words) and ("=" in words[0] or words[0].startswith("-"))
    assert not plays or summaries() > before, words
    out = Path(words[words.index("--out") + 1]) if "--out" in words else None
    if words[0] == "figures":
        drawn = out or Path(words[1], "figures")
        for name in words[words.index("--only") + 1].split(","):
            assert (drawn / f"{name}.png").exists()
            assert (drawn / f"{name}.pdf").exists()
    elif out:
        assert out.exists()
    asked = re.findall(r"figures=\[(.*?)\]", " ".join(words))
    for name in ",".join(asked).split(",") if asked else ():
        assert list(Path.cwd().rglob(f"figures/{name}.pdf"))


def make(words: list[str]) -> None:
    """Every target exists; `make` itself is not run here."""
    targets = re.findall(
        r"^([a-z-]+):", (support.REPOSITORY / "Makefile").read_text(), re.MULTILINE
    )
    assert {word for word in words if "=" not in word} <= set(targets)


def pip(words: list[str]) -> None:
    """Every constraints file and every extra exists; tests/test_constraints.py resolves them."""
    assert words[0] == "install"
    for word in words:
        if word.startswith("constraints"):
            assert (support.REPOSITORY / word).exists()
        for extra in re.findall(r"\[(.+)\]", word):
            assert extra in PROJECT["optional-dependencies"]


def set_variable(words: list[str]) -> None:
    """Does what `export` does; the fixture `folder` undoes it."""
    name, _, value = words[0].partition("=")
    os.environ[name] = value


PROGRAMS = {"fairbandit": fairbandit, "make": make, "pip": pip, "export": set_variable}


def completes(text: str) -> None:
    """What a line for the shell takes from the command is a script that bash can read."""
    for command in re.findall(r"\$\(fairbandit (.+?)\)", text):
        with redirect_stdout(StringIO()) as script:
            main(shlex.split(command))
        subprocess.run(["bash", "-n"], input=script.getvalue(), text=True, check=True)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.place)
def test_every_block_in_order(page, folder, capsys):
    space = {"__name__": page.name}
    for block in page.blocks:
        if block.file:
            write(folder / block.file, block.text)
        elif block.language == "python":
            exec(compile(block.text, page.place, "exec"), space)
        elif block.language == "bash":
            completes(block.text)
        elif block.language == "yaml":
            OmegaConf.create(block.text)
        else:
            assert block.language in ("", "console"), f"nothing runs blocks of {block.language}"
        for program, *words in block.commands:
            PROGRAMS[program](words)
    said = capsys.readouterr().out
    for pattern in SAID.get(page.place, ()):
        assert re.search(pattern, said, re.MULTILINE)
    for name in OF_PAGES.get(page.place, ()):
        sweep = Path(f"outputs/sweeps/experiment-{name}")
        check(name, sweep, said, rounds=ROUNDS, replicas=REPLICAS)


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.place)
def test_no_block_and_no_link_is_overlooked(page):
    lines = re.findall(r"^\s*```", page.text, re.MULTILINE)
    assert len(lines) == 2 * len(page.blocks)
    for file, heading in page.links:
        other = Page((page.path.parent / file).resolve()) if file else page
        assert other.path.exists(), f"{page.path} links to {file}"
        assert not heading or heading in other.anchors, f"{page.path} links to {file}#{heading}"


def test_the_readme_says_what_the_first_page_says():
    start = next(page for page in PAGES if page.place == "docs/index.md")
    assert len(README.commands) == 5
    assert all(words in start.commands for words in README.commands)
    assert {block.language for block in README.blocks} == {"console"}
    assert "\nmake test\n" in (support.REPOSITORY / ".ci" / "run").read_text()


def test_the_pages_have_commands_and_snippets():
    assert sum(len(page.commands) for page in PAGES) >= 20
    assert sum(block.language == "python" for page in PAGES for block in page.blocks) >= 5
    assert len(GUIDES) == 6
