"""Runs that are cut off and gone on with, checkpoints, and what is refused."""

import errno
import hashlib
import io
import pickle
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from fairbandit.environments import Simulation
from fairbandit.errors import FairbanditError
from fairbandit.files import state
from fairbandit.runs import round_log
from fairbandit.runs.checkpoint import VARIABLE
from fairbandit.runs.execute import execute
from fairbandit.runs.folder import CHECKPOINT, StorageError
from fairbandit.version import VERSION
from tests.killing import cut_off, leftovers, outcome
from tests.runs.test_curves import scalars


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """A checkpoint after every piece."""
    monkeypatch.setenv(VARIABLE, "0")


@pytest.fixture
def stopped(config, tmp_path):
    """The config and the folder of a run that was cut off after its first checkpoint."""
    config["rounds"] = 600
    cut_off(config, tmp_path, 1)
    return config, tmp_path


@pytest.mark.parametrize(
    ("policy", "whole"), [("halves ridge empirical_cdf", False), ("full ridge identity", True)]
)
def test_cut_off_anywhere_it_ends_as_if_never_stopped(config, tmp_path, monkeypatch, policy, whole):
    if not whole:  # two batches, and several files in each
        monkeypatch.setattr("fairbandit.runs.execute.BUDGET", 3_000_000)
        monkeypatch.setattr(round_log, "FILE_ROWS", 1200)
    split, estimator, rank = policy.split()
    config |= {"policy": {"split": split, "estimator": estimator, "rank": rank}, "rounds": 1400}
    execute(config, tmp_path / "whole")
    assert len(list((tmp_path / "whole" / "rounds").iterdir())) == (1 if whole else 5)
    folder, places = tmp_path / "stopped", list[str]()
    stops = (1, 2, 3, 4, 5, *(() if whole else (6, 7, 9, 10, 11)))  # cut off after each in turn
    for before, at in pairwise((0, *stops)):
        cut_off(config, folder, at - before)
    execute(config, folder, started=places.append)
    assert outcome(folder) == outcome(tmp_path / "whole")
    assert leftovers(folder) == []
    assert scalars(folder) == scalars(tmp_path / "whole")
    assert re.match(r"going on at round [\d,]+ of 1,400", places[0])


def test_rewards_that_wait_are_kept_when_a_run_is_cut_off(config, tmp_path):
    config |= {"rounds": 400, "delay": 60, "delay_law": "geometric"}
    summary = execute(config, tmp_path / "whole")
    cut_off(config, tmp_path / "stopped", 1)
    execute(config, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    assert summary["config"]["delay"] == 60


def test_a_finished_run_is_left_as_it_is(stopped, monkeypatch):
    """Its seconds are the sum over its pieces."""
    config, folder = stopped
    saved = state.read(folder / CHECKPOINT)
    saved["contents"]["seconds"] += 1000.0
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
    words = (
        f'seed: 1 there, 5 here; version: "{VERSION}" there, "9.9" here.*resume=false starts from'
    )
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


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            lambda saved: saved.update(batch="0"),
            r"is not a complete checkpoint.*\$\.contents\.batch",
        ),
        (lambda saved: saved.update(batch=7), "does not fit the run"),
        (lambda saved: saved.update(round=saved["round"] + 1), "it belongs to another round"),
        (lambda saved: saved["log"]["waiting"].pop(), "does not fit the run"),
        (lambda saved: saved["engine"]["known"]["past"].update(rounds=10**9), "a different round"),
        (
            lambda saved: saved["statistics"].update(selected=torch.zeros(2, 2)),
            r"expected .*shape \(3, 4\)",
        ),
    ],
)
def test_a_crafted_checkpoint_is_refused_before_it_plays(stopped, change, named):
    config, folder = stopped
    saved = state.read(folder / CHECKPOINT)
    change(saved["contents"])
    state.write(state.packed(saved), folder / CHECKPOINT)
    with pytest.raises(FairbanditError, match=named):
        execute(config, folder)


def test_a_missing_or_changed_part_is_named(config, tmp_path, monkeypatch):
    monkeypatch.setattr(round_log, "FILE_ROWS", 1200)
    config["rounds"] = 1400
    cut_off(config, tmp_path, 3)
    part = tmp_path / "rounds" / "part-000000-000000001.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(FairbanditError, match=rf"{part.name}, which is missing or has changed"):
        execute(config, tmp_path)
    part.unlink()
    with pytest.raises(FairbanditError, match="missing or has changed"):
        execute(config, tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EPERM])
def test_a_disk_that_can_not_be_written_to(config, tmp_path, monkeypatch, number):
    config["rounds"] = 600

    def fails(*_: Any) -> None:
        raise OSError(number, "no")

    with monkeypatch.context() as full:
        full.setattr(state, "write", fails)
        with pytest.raises(StorageError, match="the same command continues from there") as caught:
            execute(config, tmp_path)
    assert str(tmp_path) in str(caught.value)
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
    with pytest.raises(FairbanditError, match=r"the state part\S* cannot be saved"):
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
