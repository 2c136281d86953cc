"""Every fault that a plugin can have is caught, and its message names it."""

import random
import re

import numpy as np
import pytest

from fairbandit import conformance, registry
from fairbandit.conformance import ConformanceError
from fairbandit.plugins import load_plugins
from fairbandit.streams import GRID
from tests import support

BROKEN = support.REPOSITORY / "tests" / "plugins" / "broken"

FAULTS = {
    "broken_shape": (
        conformance.shapes,
        r"the index has shape \(12, 4\) and torch.float64; "
        r"expected \(B, N, K\) = \(12, 4, 6\) and torch.float64",
    ),
    "broken_nan": (
        conformance.finite_in_range,
        r"indices after 2 rounds are not finite or not from 0 to 1, such as nan for "
        r"replica \d+, round \d, place \d \(group \d\)",
    ),
    "broken_falling": (conformance.monotone, "not monotone: in round "),
    "broken_random": (
        conformance.leaves_global_generators,
        "it draws from torch's global generator",
    ),
    "broken_state": (
        conformance.resumes,
        "a run never stopped and one resumed from its state give different indices, first at "
        f"round {GRID + 1}",
    ),
    "broken_reach": (
        conformance.honours_reach,
        r"the decision at round \d+ changes with a reward later than reach\(\d+\) = \d+",
    ),
}
"""The check that catches each fault, and what it says."""


@pytest.fixture(autouse=True)
def _loaded(clean, monkeypatch):
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(BROKEN))
    load_plugins()


def test_every_file_is_tried():
    files = {path.stem for path in BROKEN.glob("*.py")}
    assert files == {*FAULTS, "broken_raise"}
    assert files <= set(registry.names("rank"))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught(name):
    check, message = FAULTS[name]
    assert check in conformance.checks("rank")
    with pytest.raises(ConformanceError, match=message):
        check("rank", name)


@pytest.mark.parametrize("name", FAULTS)
def test_the_tool_names_the_fault(name, command):
    check, message = FAULTS[name]
    code, out, err = command("check", f"rank={name}")
    assert (code, err) == (1, "")
    label = (check.__doc__ or "").rstrip(".\n")
    assert re.search(rf"✗ {re.escape(label)}: .*{message}", out), out


@pytest.mark.parametrize("name", ["broken_falling", "broken_state"])
def test_one_fault_is_one_cross(name, command):
    out = command("check", f"rank={name}")[1]
    assert out.count("✗") == 1
    assert "13 of 14 checks passed" in out


def test_an_error_inside_a_part_is_a_failed_check(command):
    code, out, err = command("check", "rank=broken_raise")
    assert (code, err) == (1, "")
    line = 1 + (BROKEN / "broken_raise.py").read_text().split("\n").index(
        '        return candidates.scores * weights["bandwidth"]'
    )
    assert "✗ Plays some rounds without breaking" in out
    assert f"KeyError: 'bandwidth' (broken_raise.py:{line})" in out
    assert "– Decides alike when run twice under one seed: not tried, for the fault above" in out


@pytest.mark.parametrize(
    ("generator", "draw"), [("Python's", random.random), ("NumPy's", np.random.standard_normal)]
)
def test_every_global_generator_is_watched(generator, draw, monkeypatch):
    def _index(self, candidates):
        draw()
        return candidates.groups.double().clamp(0, 1)

    monkeypatch.setattr(registry.lookup("rank", "broken_random"), "_index", _index)
    for _ in range(2):  # NumPy's key changes only every so many draws
        with pytest.raises(ConformanceError, match=f"draws from {generator} global generator"):
            conformance.leaves_global_generators("rank", "broken_random")
