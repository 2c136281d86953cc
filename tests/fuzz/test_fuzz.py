"""Some inputs of each door, always the same; and the harness outlives those that end it."""

import subprocess
from pathlib import Path

import pytest

from tests.fuzz import __main__ as fuzz

INPUTS = {
    **{"calls": 300, "tables": 250, "files": 120, "logs": 200, "commands": 40, "mistakes": 150},
    **{"decisions": 40, "reports": 30},
}
"""`make fuzz` tries many more."""


@pytest.mark.all
@pytest.mark.parametrize("name", fuzz.DOORS)
def test_no_input_finds_a_fault(name: str, tmp_path: Path) -> None:
    results = [fuzz.attempt(name, number, tmp_path) for number in range(INPUTS[name])]
    endings = {result.ending for result in results}
    refused = set() if name == "decisions" else {"refused"}  # all its policies are sound
    assert endings == {"accepted"} | refused, fuzz.report(results)


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
