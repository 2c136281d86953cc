"""A YAML file in a folder of one's own says everything about a named policy."""

from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from docs import keys
from fairbandit.building import named_policies, search_configs
from fairbandit.errors import FairbanditError
from fairbandit.results import read_scenes
from tests.figures.synthetic import compose

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
    code, _, err = command(*words, *SHORT, "figures=[overview,notions]")
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
    assert command("figures", "run", "--only", "overview", "--config-dir=conf")[0] == 0
    assert "smooth  " not in command("--help")[1]
    code, _, err = command("--config-dir", "none", "--help")
    assert (code, "none is not a folder" in err) == (1, True)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"#123456"', "blue", "Expected `str` matching regex .* `\\$.look.colour`"),
        ("[4, 1]", "wavy", "Invalid .* 'wavy' - at `\\$.look.line`|`\\$.look.line`"),
        ("order: 15", "order: late", "Expected `float`, got `str` - at `\\$.order`"),
        ("name: smooth", "name: other", "expected the name of the file, smooth, got 'other'"),
        ("name: smooth", "name: [", "smooth.yaml cannot be read"),
    ],
)
def test_a_wrong_file_is_named(mine, before, after, message):
    mine.write_text(MINE.replace(before, after))
    search_configs([mine.parents[1]])
    with pytest.raises(FairbanditError, match=message):
        named_policies()
