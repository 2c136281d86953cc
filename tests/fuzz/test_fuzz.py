"""Some inputs of each door, always the same; and the harness outlives those that end it."""

import random
import subprocess
from pathlib import Path

import pytest

from fairbandit import FairbanditError
from fairbandit.logs import schema
from tests.fuzz import __main__ as fuzz
from tests.fuzz import mistakes

INPUTS = {"calls": 300, "tables": 250, "logs": 200, "commands": 40, "mistakes": 150}
"""`make fuzz` tries many more."""


@pytest.mark.all
@pytest.mark.parametrize("name", fuzz.DOORS)
def test_no_input_finds_a_fault(name: str, tmp_path: Path) -> None:
    results = [fuzz.attempt(name, number, tmp_path) for number in range(INPUTS[name])]
    endings = {result.ending for result in results}
    assert endings == {"accepted", "refused"}, fuzz.report(results)


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


def test_an_agent_that_is_judged_by_what_it_has_learned_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For another reason it is one, too."""

    def learned(seed: int) -> None:
        frame = mistakes.table("texts", 2)
        mistakes.MISTAKES["an agent's own decisions"](random.Random(seed), frame, "texts", tmp_path)

    with pytest.raises(FairbanditError, match="has learned from this log"):
        learned(0)
    monkeypatch.setattr(schema, "MOST_KNOWN", 1.0)
    with pytest.raises(AssertionError, match="judged by what it has learned from"):
        learned(0)

    def refused(*_: object, **__: object) -> None:
        raise FairbanditError("the log has no groups")

    monkeypatch.setattr(mistakes, "evaluate", refused)
    with pytest.raises(AssertionError, match="the log has no groups"):
        learned(0)


def test_other_numbers_without_a_further_note_are_silent() -> None:
    frame, right = mistakes.table("texts", 2), mistakes.sound("texts", 2)
    other = mistakes.judged("texts", frame.assign(reward=frame["reward"] + 5))
    wrong = mistakes.silent(other, right)
    assert any("'agent', 'reward', 'dr'" in text for text in wrong)
    assert not mistakes.silent(right, right)
    other.attrs["notes"].append("a further note")
    assert not mistakes.silent(other, right)
