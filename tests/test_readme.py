"""Every command and every snippet of the README works as it stands, only shorter."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from fairbandit import conformance, registry
from fairbandit.cli.main import main
from tests import support

README = (support.REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line
    for kind, text in BLOCKS
    if kind == "console"
    for line in text.splitlines()
    if line.startswith("fairbandit ")
]
SNIPPETS = [text for kind, text in BLOCKS if kind == "python"]
SAID = r"^fair pseudo-regret|10 rewards to come|^[01]$|^each round was decided [23]\.\d times"


@pytest.fixture
def fresh_folder(tmp_path, monkeypatch):
    """A folder like a new user's, with the table that the README speaks of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    draws = np.random.default_rng(0)
    rows = ["sex,income,age,hours,job"]
    for _ in range(300):
        sex, age, hours = draws.choice(["f", "m"]), draws.integers(18, 70), draws.integers(5, 60)
        job = draws.choice(["clerk", "nurse", "smith"])
        rows.append(f"{sex},{300 * hours + 20 * age + draws.integers(0, 500)},{age},{hours},{job}")
    (tmp_path / "people.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def shorter(command: str) -> list[str]:
    words = [word for word in shlex.split(command)[1:] if not word.startswith("rounds=")]
    words = ["replicas=2" if word.startswith("replicas=") else word for word in words]
    return [*words, "rounds=20"]


def draw_after_its_sweep(command: str) -> None:
    """Makes the sweep that the README made before, in the folder that the figures are drawn of."""
    words = shlex.split(command)[1:]
    before = COMMANDS[: COMMANDS.index(command)]
    sweep = next(one for one in reversed(before) if "-m " in one or "+experiment" in one)
    main(
        [
            *(word for word in shorter(sweep) if "sweep.dir" not in word),
            f"hydra.sweep.dir={words[1]}",
        ]
    )
    main(words)
    out = Path(words[words.index("--out") + 1]) if "--out" in words else Path(words[1], "figures")
    for name in words[words.index("--only") + 1].split(","):
        assert (out / f"{name}.png").exists()
        assert (out / f"{name}.pdf").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, fresh_folder, capsys):
    if "--help" in command:
        main(["--help"])
        return
    if command.startswith("fairbandit dashboard"):
        pytest.skip("it waits for Ctrl-C; tests/dashboard runs it")
    if command.startswith("fairbandit figures"):
        draw_after_its_sweep(command)
        return
    words = shorter(command)
    if command.startswith("fairbandit theory"):
        main(words)
        assert "th:regret" in capsys.readouterr().out
        return
    if "=census_" in command:
        if not support.CENSUS.is_dir():
            pytest.skip("the census records are not beside this")
        words = [word for word in words if "download" not in word and "states" not in word]
        words += [
            f"environment.root={support.CENSUS}",
            "environment.states=[VT,WY]",
            "environment.scaler_states=[AL]",
            "environment.min_group_size=30",
        ]
    main(words)
    assert list(fresh_folder.glob("outputs/**/summary.json"))


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippet(snippet, fresh_folder, capsys):
    space = {"__name__": "readme"}
    exec(compile(snippet, "README.md", "exec"), space)
    if "register(" in snippet:
        try:
            for check in conformance.checks("rank"):
                check("rank", "midpoint_cdf")
        finally:
            del registry._registry["rank"]["midpoint_cdf"]
    else:
        said = capsys.readouterr().out
        assert re.search(SAID, said, re.MULTILINE)


def test_the_readme_has_commands():
    assert len(COMMANDS) >= 8
    assert len(SNIPPETS) == 5
