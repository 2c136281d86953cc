"""Runs that are cut off and gone on with, checkpoints, and what is refused."""

import errno
import hashlib
import io
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from fairbandit.environments import Simulation
from fairbandit.errors import FairbanditError
from fairbandit.files import state
from fairbandit.runs import record
from fairbandit.runs.execute import execute
from fairbandit.runs.folder import CHECKPOINT
from fairbandit.version import VERSION
from tests.killing import cut_off, leftovers, outcome
from tests.runs.test_curves import scalars


@pytest.fixture(autouse=True)
def _batches(monkeypatch):
    """Each replica is a batch."""
    monkeypatch.setattr("fairbandit.runs.execute.BUDGET", 1)


@pytest.fixture
def stopped(config, tmp_path):
    """The config and the folder of a run that was cut off in its second batch."""
    config["rounds"] = 600  # three pieces
    cut_off(config, tmp_path, 4)
    return config, tmp_path


def test_cut_off_anywhere_it_ends_as_if_never_stopped(config, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "FILE_ROWS", 1)  # a file for each piece
    config |= {"rounds": 600, "replicas": 6, "metrics": {"gap": "parity_gap"}}
    execute(config, tmp_path / "whole")
    folder, places = tmp_path / "stopped", list[str]()
    for pieces in (2, 3, 4, 7, 2):  # 0, 1, 2, 4 and 4 batches are finished then
        cut_off(config, folder, pieces)
    execute(config, folder, started=places.append)
    assert places == ["going on after 4 of 6 replicas"]
    assert outcome(folder) == outcome(tmp_path / "whole")
    assert len(list((folder / "rounds").iterdir())) == 6 * 3
    assert leftovers(folder) == []
    assert scalars(folder) == scalars(tmp_path / "whole")


def test_a_finished_run_is_left_as_it_is(stopped, monkeypatch):
    """Its seconds are the sum over its batches."""
    config, folder = stopped
    saved = state.read(folder / CHECKPOINT)
    saved["seconds"] += 1000.0
    state.write(state.packed(saved), folder / CHECKPOINT)
    summary = execute(config, folder)
    assert 1000 < summary["seconds"] < 1100

    def seen() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*")}

    before = seen()
    monkeypatch.setattr(Simulation, "bind", lambda *_: pytest.fail("simulated"))
    assert execute({**config, "threads": 2}, folder) == summary
    assert seen() == before


def test_a_checkpoint_of_another_run_is_refused_with_what_differs(stopped, monkeypatch):
    config, folder = stopped
    held = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    monkeypatch.setattr("fairbandit.version.VERSION", "9.9")
    words = f'seed: 1 there, 5 here; version: "{VERSION}" there, "9.9" here.*resume=false starts in'
    with pytest.raises(FairbanditError, match=words):
        execute({**config, "seed": 5}, folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == held


def test_without_resume_a_folder_with_a_run_is_not_touched(stopped):
    config, folder = stopped
    for _ in range(2):
        with pytest.raises(FairbanditError, match="already holds a run, and resume is false"):
            execute({**config, "resume": False}, folder)
        execute({**config, "threads": 2}, folder)


def test_a_damaged_checkpoint_is_named(stopped):
    config, folder = stopped
    path = folder / CHECKPOINT
    whole = path.read_bytes()
    flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    for damaged in (whole[:-100], flipped, b"{}" * 500, b""):
        path.write_bytes(damaged)
        with pytest.raises(
            FairbanditError, match=f"{re.escape(str(path))} is not a complete checkpoint"
        ):
            execute(config, folder)
    path.write_bytes(whole)
    execute(config, folder)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EPERM])
def test_a_disk_that_can_not_be_written_to(config, tmp_path, monkeypatch, number):
    config["rounds"] = 600

    def fails(*_: Any) -> None:
        raise OSError(number, "no")

    with monkeypatch.context() as full:
        full.setattr(state, "write", fails)
        with pytest.raises(OSError, match="no"):
            execute(config, tmp_path)
    execute(config, tmp_path)


def test_nested_data_come_back_as_they_were(tmp_path):
    shared = torch.arange(6, dtype=torch.float64).view(2, 3)
    value: dict[str, Any] = {
        "a": [shared, shared.T, shared[:, :0], torch.tensor(True)],
        "b": {"int": 2**70, "float": float("inf"), "text": "ä", "none": None, "list": []},
    }
    path = tmp_path / "file"
    state.write(state.packed(value), path)
    back = state.read(path)
    assert back["b"] == value["b"]
    for mine, theirs in zip(back["a"], value["a"], strict=True):
        assert torch.equal(mine, theirs)
        assert mine.dtype == theirs.dtype
        mine.zero_()  # its own memory, to be written to
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("odd", [{1, 2}, {"x": object()}, {3: 4}])
def test_what_cannot_be_saved_is_named(odd):
    with pytest.raises(FairbanditError, match=r"^part\S* cannot be saved"):
        state.packed({"part": odd})


class Code:
    """Runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("ran code of a file",)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_a_file_of_a_stranger_runs_no_code(tmp_path, how):
    stream = io.BytesIO()
    if how == "torch":
        torch.save({"x": Code()}, stream)
    else:
        pickle.dump(Code(), stream, protocol=2)
    whole = stream.getvalue()
    (tmp_path / "file").write_bytes(hashlib.sha256(whole).hexdigest().encode() + whole)
    with pytest.raises(ValueError, match="torch cannot read it"):
        state.read(tmp_path / "file")
