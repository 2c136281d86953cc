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
    cut_off(config, tmp_path, 1)
    return config, tmp_path


def held(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_cut_off_anywhere_it_ends_as_if_never_stopped(config, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "FILE_ROWS", 1)  # a file for each piece
    config |= {"rounds": 300, "replicas": 4, "metrics": {"gap": "parity_gap"}}
    execute(config, tmp_path / "whole")
    folder, places = tmp_path / "stopped", list[str]()
    for pieces in (1, 2, 3, 0):  # 0, 1, 2 and 2 batches are finished then
        cut_off(config, folder, pieces)
    execute(config, folder, started=places.append)
    assert places == ["going on after 2 of 4 replicas"]
    assert outcome(folder) == outcome(tmp_path / "whole")
    assert len(list((folder / "rounds").iterdir())) == 4 * 2
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
    before = held(folder)
    with pytest.raises(FairbanditError, match="already holds a run, and resume is false"):
        execute({**config, "resume": False}, folder)
    monkeypatch.setattr("fairbandit.version.VERSION", "9.9")
    words = f'seed: 1 there, 5 here; version: "{VERSION}" there, "9.9" here.*resume=false starts in'
    with pytest.raises(FairbanditError, match=words):
        execute({**config, "seed": 5}, folder)
    assert held(folder) == before


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


def test_a_disk_that_can_not_be_written_to(config, tmp_path, monkeypatch):
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no")

    with monkeypatch.context() as full:
        full.setattr(state, "write", fails)
        with pytest.raises(OSError, match="no"):
            execute(config, tmp_path)
    execute(config, tmp_path)


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
