"""A YAML file in a folder of one's own says everything about a named policy."""

from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from docs import keys
from fairbandit.errors import FairbanditError
from fairbandit.figures.draw import compose
from fairbandit.policy.build import search_configs
from fairbandit.runs.scenes import read_scenes

MINE = """\
# Fair-Greedy with a smoothed empirical CDF.
defaults:
  - split: halves
  - estimator: ridge
  - rank: smoothed_cdf
  - selector: argmax
  - _self_
name: smooth
rank:
  bandwidth: 0.5
label: Smooth-Greedy
order: 15
look: {colour: "#123456", line: [4, 1], marker: s, hatch: "//"}
notion: relative rank
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "conf" / "policy").mkdir(parents=True)
    file: Path = tmp_path / "conf" / "policy" / "smooth.yaml"
    file.write_text(MINE)
    yield file
    search_configs([])


SHORT = ("rounds=12", "replicas=2", "hydra.sweep.dir=sweep")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--config-dir", "conf", "+experiment=notions"), marks=pytest.mark.all),
        ("-m", "policy=uniform,smooth,oful", "hydra.searchpath=[file://conf]"),
    ],
)
def test_a_policy_is_found_everywhere(command, mine, tmp_path, words):
    code, _, err = command(*words, *SHORT)
    assert (code, err) == (0, "")
    (scene,) = read_scenes([tmp_path / "sweep"])
    assert [run.label for run in scene.runs][:3] == ["Uniform random", "Smooth-Greedy", "OFUL"]
    *_, regret = compose("overview", scene).axes
    (line,) = (line for line in regret.get_lines() if line.get_label() == "Smooth-Greedy")
    assert (to_hex(str(line.get_color())), line.get_marker()) == ("#123456", "s")
    (table,) = compose("notions", scene).axes
    assert "Smooth-Greedy" in [label.get_text() for label in table.get_yticklabels()]
    assert "| `smooth` | Smooth-Greedy" in keys.policies()


def test_help_and_tools_take_the_folder_too(command, mine):
    _, out, _ = command("--help", "--config-dir", "conf")
    assert "smooth                      Fair-Greedy with a smoothed empirical CDF." in out
    command("--config-dir", "conf", "policy=smooth", *SHORT[:2], "hydra.run.dir=run")
    assert command("figures", "run", "only=overview", "--config-dir=conf")[0] == 0
    assert "smooth  " not in command("--help")[1]
    code, _, err = command("--config-dir", "none", "--help")
    assert (code, "none is not a folder" in err) == (1, True)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"#123456"', "blue", r"matching regex .*#\[0-9a-f\].* at `\$.look.colour`"),
        ("[4, 1]", "wavy", r"'wavy' - at `\$.look.line`"),
        ("line:", "lines:", "unknown field `lines`"),
        ("name: smooth", "name: other", "name: expected the name of the file, smooth; got 'other'"),
        ("name: smooth", "name: [", "smooth.yaml cannot be read"),
    ],
)
def test_a_wrong_file_is_named(mine, before, after, message):
    mine.write_text(MINE.replace(before, after, 1))
    with pytest.raises(FairbanditError, match=message):
        search_configs([mine.parents[1]])


@pytest.mark.parametrize(
    "words",
    [
        ("check", "policy=smooth", "--config-dir=conf"),
        ("--config-dir=conf", "policy=oful"),
        ("-m", "policy=oful,greedy", "hydra.searchpath=[file://conf]"),
    ],
)
def test_no_command_begins_with_a_wrong_file_or_the_name_of_another(command, mine, words):
    mine.write_text(MINE.replace("[4, 1]", "wavy"))
    code, out, err = command(*words)
    assert (code, out) == (1, "")
    assert "policy/smooth.yaml: Invalid" in err
    mine.rename(mine.with_name("greedy.yaml"))
    code, out, err = command(*words)
    assert (code, out) == (1, "")
    assert "greedy.yaml: a named policy has this name already" in err
