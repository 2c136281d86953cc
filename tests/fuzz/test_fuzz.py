"""Some inputs of each subject, always the same; and the harness finds what it is made to find."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from fairbandit.errors import FairbanditError
from tests.fuzz.__main__ import SUBJECTS, report, supervised
from tests.fuzz.harness import Fault, FoundError, Result, Subject, outcome

INPUTS = {"calls": 150, "tables": 120, "files": 60, "commands": 25}
"""About half a minute in all; `make fuzz` tries many more."""


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_input_finds_a_fault(name: str, tmp_path: Path) -> None:
    subject = SUBJECTS[name](tmp_path)
    results = [outcome(subject, number) for number in range(INPUTS[name])]
    faults = [result for result in results if result.fault]
    assert not faults, report(results)
    endings = {result.ending for result in results}
    assert endings == {"accepted", "refused"}


class Odd(Subject):
    """Does what its number says."""

    name, share, limit = "odd", 0.0, 0.2

    def attempt(self, number: int) -> None:
        if number == 1:
            raise FairbanditError("no")
        if number == 2:
            raise ValueError("an error of another kind")
        if number == 3:
            self._sleep()
        if number == 4:
            raise FoundError(Fault.state, "changed")
        if number == 5:
            os.abort()

    def _sleep(self) -> None:
        """As slow code does that handles errors of every kind."""
        try:
            time.sleep(60)
        except Exception:
            self._sleep()


def test_every_fault_is_told_from_an_answer(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    endings = [outcome(odd, number).ending for number in range(5)]
    assert endings == ["accepted", "refused", "traceback", "timeout", "state"]


def test_a_process_that_ends_or_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inputs after a crash are tried too."""
    script = (
        "from tests.fuzz import __main__ as fuzz, test_fuzz\n"
        "fuzz.SUBJECTS['odd'] = test_fuzz.Odd\n"
        "fuzz.work('odd', {first}, {count})\n"
    )
    monkeypatch.setitem(SUBJECTS, "odd", Odd)
    popen = subprocess.Popen

    def started(words: list[str], **options: Any) -> "subprocess.Popen[str]":
        first, count = words[-2:]
        return popen([words[0], "-c", script.format(first=first, count=count)], **options)

    monkeypatch.setattr("tests.fuzz.__main__.subprocess.Popen", started)
    results = supervised("odd", 4, 3)
    assert [result.ending for result in results] == ["state", "crash", "accepted"]
    assert [result.number for result in results] == [4, 5, 6]


def test_the_report_counts_and_shows() -> None:
    results = [
        Result("calls", 0, "accepted"),
        Result("calls", 1, "refused"),
        Result("calls", 2, "state", "what changed"),
    ]
    table = report(results)
    assert "state: calls 2\nwhat changed" in table
    assert table.splitlines()[-1].split() == ["calls", "3", "1", "1", "0", "0", "0", "1", "0"]
