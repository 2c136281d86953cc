"""Some inputs of each door, always the same; and the harness finds what it is made to find."""

import random
import subprocess
from pathlib import Path

import pytest

from fairbandit.errors import FairbanditError
from tests.fuzz import __main__ as fuzz

INPUTS = {"calls": 300, "tables": 250, "files": 120, "commands": 40}
"""`make fuzz` tries many more."""


@pytest.mark.all
@pytest.mark.parametrize("name", fuzz.DOORS)
def test_no_input_finds_a_fault(name: str, tmp_path: Path) -> None:
    results = [fuzz.attempt(name, number, tmp_path) for number in range(INPUTS[name])]
    endings = {result.ending for result in results}
    assert endings == {"accepted", "refused"}, fuzz.report(results)


def odd(draw: random.Random, folder: Path) -> None:
    """Is accepted, refused, or fails."""
    match draw.randrange(3):
        case 1:
            raise FairbanditError("no")
        case 2:
            assert folder.name == "nothing"


def test_every_fault_is_told_from_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fuzz.DOORS, "odd", odd)
    does = [random.Random(f"odd {number}").randrange(3) for number in range(30)]
    for kind, ending in enumerate(["accepted", "refused", "fault"]):
        result = fuzz.attempt("odd", does.index(kind), tmp_path)
        assert result.ending == ending
        assert ("AssertionError" in result.text) == (ending == "fault")
    assert not list(tmp_path.iterdir())


def test_a_process_that_ends_is_a_fault_and_another_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed = ['["odd", 4, "accepted", ""]\n', '["odd", 6, "refused", ""]\n']

    def run(words: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(words, -6, printed.pop(0))

    monkeypatch.setattr(subprocess, "run", run)
    results = fuzz.supervised("odd", 4, 3)
    assert [result.ending for result in results] == ["accepted", "fault", "refused"]
    assert fuzz.report(results).endswith("odd: 1 accepted, 1 fault, 1 refused")
