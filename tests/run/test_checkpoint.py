"""Runs that are cut off and gone on with, checkpoints, and what is refused."""

import errno
import json
import re
import time
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from fairbandit.engine import Engine
from fairbandit.environments import Simulation
from fairbandit.errors import FairbanditError
from fairbandit.metrics import Played
from fairbandit.run import batches, round_log, state
from fairbandit.run.checkpoint import FORMAT, VARIABLE, Checkpoints
from fairbandit.run.execute import execute
from fairbandit.run.folder import StorageError, fresh
from fairbandit.streams import GRID
from tests.killing import leftovers, outcome
from tests.run.test_pieces import scalars


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """A checkpoint after every piece."""
    monkeypatch.setenv(VARIABLE, "0")


class Killed(KeyboardInterrupt):
    """Stands for SIGKILL: what a run does on errors, it does not do on this one."""


def cut_off(config: dict[str, Any], folder: Path, pieces: int, monkeypatch: Any) -> None:
    """A run that ends after so many pieces."""
    play = Engine.play
    left = [pieces]

    def stops(self: Engine) -> Iterator[Played]:
        for played in play(self):
            if not left[0]:
                raise Killed
            left[0] -= 1
            yield played

    with monkeypatch.context() as broken:
        broken.setattr(Engine, "play", stops)
        with pytest.raises(Killed):
            execute(config, folder)


@pytest.mark.parametrize("policy", ["halves ridge empirical_cdf", "full ridge identity"])
@pytest.mark.parametrize("whole", [True, False])
def test_cut_off_anywhere_it_ends_as_if_never_stopped(config, tmp_path, monkeypatch, policy, whole):
    if not whole:  # two batches, and several files in each
        monkeypatch.setattr(batches, "BUDGET", 3_000_000)
        monkeypatch.setattr(round_log, "FILE_ROWS", 1200)
        monkeypatch.setattr(round_log, "GROUP_ROWS", 600)
    split, estimator, rank = policy.split()
    config |= {
        "policy": {"split": split, "estimator": estimator, "rank": rank},
        "rounds": 1400,
    }
    execute(config, tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    assert len(list((tmp_path / "whole" / "rounds").iterdir())) == (1 if whole else 5)
    folder, said = tmp_path / "stopped", list[str]()
    stops = (1, 2, 3, 4, 5, *(() if whole else (6, 7, 9, 10, 11)))  # cut off after each in turn
    for before, at in pairwise((0, *stops)):
        cut_off(config, folder, at - before, monkeypatch)
    execute(config, folder, started=said.append)
    assert outcome(folder) == expected
    assert leftovers(folder) == []
    assert scalars(folder) == scalars(tmp_path / "whole")
    assert re.match(r"round [\d,]+ of 1,400", said[0])


def test_seconds_add_up_over_the_pieces(config, tmp_path, monkeypatch):
    config["rounds"] = 600
    cut_off(config, tmp_path, 1, monkeypatch)
    path = tmp_path / "checkpoint.safetensors"
    saved = state.read(path)
    saved["contents"]["seconds"] += 1000.0
    state.write(state.Packed(saved), path)
    assert 1000 < execute(config, tmp_path)["seconds"] < 1100


def test_a_finished_run_is_recognised_and_left_as_it_is(config, tmp_path, monkeypatch):
    config["policy"] = {"split": "full", "estimator": "optimistic_ridge", "rank": "identity"}
    summary = execute(config, tmp_path)

    def seen() -> dict[Path, tuple[int, int, int]]:
        """All but the times of access, which this look itself changes."""
        stats = {path: path.stat() for path in tmp_path.rglob("*")}
        return {path: (s.st_ino, s.st_size, s.st_mtime_ns) for path, s in stats.items()}

    before = seen()
    monkeypatch.setattr(Simulation, "bind", lambda *_: pytest.fail("simulated"))
    assert execute({**config, "threads": 2}, tmp_path) == summary
    assert seen() == before


def test_a_finished_run_of_another_config_is_refused_with_what_differs(config, tmp_path):
    execute(config, tmp_path)
    other = {**config, "seed": 5, "environment": {"name": "simulation", "noise": 1}}
    with pytest.raises(FairbanditError) as caught:
        execute(other, tmp_path)
    assert "environment.noise: 2.0 there, 1.0 here; seed: 1 there, 5 here." in str(caught.value)


def test_a_mismatch_is_refused_with_what_differs(config, tmp_path, monkeypatch):
    config["rounds"] = 600
    cut_off(config, tmp_path, 1, monkeypatch)
    held = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr("fairbandit.version.VERSION", "9.9")
    monkeypatch.setattr("fairbandit.run.identity.GRID", 64)
    with pytest.raises(FairbanditError) as caught:
        execute({**config, "seed": 5}, tmp_path)
    message = str(caught.value)
    for words in (
        "seed: 1 there, 5 here",
        'fairbandit: "0.1.0" there, "9.9" here',
        f'grid: "{GRID}" there, "64" here',
        "resume=false starts from round 1",
    ):
        assert words in message
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == held


def test_threads_and_resume_are_no_mismatch(config, tmp_path, monkeypatch):
    config["rounds"] = 600
    cut_off(config, tmp_path, 1, monkeypatch)
    assert execute({**config, "threads": 2}, tmp_path)["config"]["threads"] == 2


def test_without_resume_a_folder_with_a_run_is_not_touched(config, tmp_path, monkeypatch):
    config["rounds"] = 600
    cut_off(config, tmp_path, 1, monkeypatch)
    with pytest.raises(FairbanditError, match="already holds a run, and resume is false"):
        execute({**config, "resume": False}, tmp_path)
    execute(config, tmp_path)
    with pytest.raises(FairbanditError, match="already holds a run, and resume is false"):
        execute({**config, "resume": False}, tmp_path)


def test_fresh_folders(tmp_path):
    run = tmp_path / "run"
    assert fresh(run) == run
    run.mkdir()
    assert fresh(run) == run
    (run / "file").touch()
    assert fresh(run) == tmp_path / "run-2"
    (tmp_path / "run-2").touch()
    assert fresh(run) == tmp_path / "run-3"


@pytest.mark.parametrize("damage", ["cut", "bit", "other", "empty", "structure"])
def test_a_damaged_checkpoint_is_named(config, tmp_path, monkeypatch, damage):
    config["rounds"] = 600
    cut_off(config, tmp_path, 1, monkeypatch)
    path = tmp_path / "checkpoint.safetensors"
    whole = path.read_bytes()
    if damage == "structure":
        state.write(state.Packed({"other": torch.ones(2)}), path)
    else:
        flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
        changed = {"cut": whole[:-100], "bit": flipped, "other": b"{}" * 500, "empty": b""}
        path.write_bytes(changed[damage])
    with pytest.raises(FairbanditError, match="is no whole checkpoint") as caught:
        execute(config, tmp_path)
    assert str(path) in str(caught.value)
    assert "resume=false starts from round 1" in str(caught.value)
    path.write_bytes(whole)
    execute(config, tmp_path)


@pytest.mark.parametrize("version", [None, 1, 99])
def test_a_checkpoint_of_another_format_is_named(config, tmp_path, monkeypatch, version):
    config["rounds"] = 600
    cut_off(config, tmp_path, 1, monkeypatch)
    path = tmp_path / "checkpoint.safetensors"
    saved = state.read(path)
    if version is None:
        del saved["format"]
    else:
        saved["format"] = version
    state.write(state.Packed(saved), path)
    message = f"it has format {version or 1}, and this version reads format {FORMAT}"
    with pytest.raises(FairbanditError, match=message) as caught:
        execute(config, tmp_path)
    assert "resume=false starts from round 1" in str(caught.value)


def test_a_missing_or_changed_part_is_named(config, tmp_path, monkeypatch):
    monkeypatch.setattr(round_log, "FILE_ROWS", 1200)
    config["rounds"] = 1400
    cut_off(config, tmp_path, 3, monkeypatch)
    part = tmp_path / "rounds" / "part-000000-000000001.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(FairbanditError, match=rf"{part.name}, which is not as it was"):
        execute(config, tmp_path)
    part.unlink()
    with pytest.raises(FairbanditError, match="not there"):
        execute(config, tmp_path)


def test_stray_files_of_a_killed_run_go(config, tmp_path, monkeypatch):
    config["rounds"] = 600
    cut_off(config, tmp_path, 1, monkeypatch)
    strays = ["rounds/part-000000-000000257.parquet", "rounds/part-000000-000000001.parquet.tmp"]
    strays += ["summary.json.tmp", "checkpoint.safetensors.tmp"]
    for stray in strays:
        (tmp_path / stray).write_text("half")
    execute(config, tmp_path)
    assert len(list((tmp_path / "rounds").iterdir())) == 1
    assert leftovers(tmp_path) == []


def test_checkpoints_are_as_rare_as_they_are_dear(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    made = Checkpoints(tmp_path, {})
    writes = []

    def slow(packed, path):
        now[0] += 2.0
        writes.append(now[0])

    monkeypatch.setattr(state, "write", slow)
    while now[0] < 600:
        now[0] += 0.5
        if made.due:
            made.save({"x": 1}, {})
    assert writes[0] == 7.0
    assert writes[1] == 7.0 + 120 + 2
    assert len(writes) * 2.0 / now[0] < 0.02


def test_a_large_first_checkpoint_waits(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    writes: list[float] = []
    monkeypatch.setattr(state, "write", lambda packed, path: writes.append(now[0]))
    made = Checkpoints(tmp_path, {})
    while now[0] < 100:
        now[0] += 1.0
        if made.due:
            made.save({"x": torch.empty(10**7, dtype=torch.float64)}, {})  # 0.8 s, as reckoned
    assert writes[0] == 48.0


def test_the_variable_must_be_a_number(config, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "often")
    with pytest.raises(FairbanditError, match=f"{VARIABLE} must be a number of seconds"):
        execute(config, tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_can_not_be_written_to(config, tmp_path, monkeypatch, number):
    config["rounds"] = 600
    with monkeypatch.context() as full:
        full.setattr(state, "save_file", _fails(number))
        with pytest.raises(StorageError) as caught:
            execute(config, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "the same command goes on from there" in str(caught.value)
    assert leftovers(tmp_path) == []
    execute(config, tmp_path)


def _fails(number: int) -> Any:
    def fails(*_: Any, **__: Any) -> None:
        raise SafetensorError(f"I/O error: something (os error {number})")

    return fails


def test_nested_data_come_back_as_they_were(tmp_path):
    shared = torch.arange(6, dtype=torch.float64).view(2, 3)
    value: dict[str, Any] = {
        "a": [shared, shared.T, shared[:, :0], torch.tensor(True)],
        "b": {"int": 2**70, "float": float("inf"), "text": "ä", "none": None, "list": []},
    }
    path = tmp_path / "file"
    state.write(state.Packed(value), path)
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
        state.Packed({"part": odd})


def crafted(tree: str, tensors: dict[str, torch.Tensor], path: Path) -> None:
    """A file with such texts and their right checksums."""
    sums = {name: zlib.crc32(tensor.numpy().tobytes()) for name, tensor in tensors.items()}
    text = json.dumps({"tree": tree, "crc32": {**sums, "tree": zlib.crc32(tree.encode())}})
    texts = {"state": text}
    save_file(tensors, path, metadata=texts)


DEEP = 100_000


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ('{"list": [' * DEEP + '{"plain": 1}' + "]}" * DEEP, "nested too deeply"),
        ("[" * DEEP, "nested too deeply"),
        ('{"tensor": "0", "device": "nowhere"}', "needs the device 'nowhere'"),
        ('{"tensor": "0", "device": "cuda:99"}', "needs the device 'cuda:99', which is not here"),
        ('{"tensor": "0", "device": "vulkan"}', "needs the device 'vulkan', which is not here"),
        ('{"tensor": "0", "device": "meta"}', "a device that holds data, got 'meta'"),
        ('{"tensor": "0", "device": 0}', "a device that holds data, got 0"),
        ('{"tensor": "0"}', "lacks 'device'"),
        ('{"tensor": "0", "device": "cpu", "shape": [1, 2]}', r"shape \[2\] in place of \[1, 2\]"),
        ('{"tensor": "0", "device": "cpu", "shape": null}', "in place of None"),
        ('{"tensor": "1", "device": "cpu"}', "lacks '1'"),
        ('{"tensor": [0], "device": "cpu"}', "lacks"),
        ('{"list": [{"tensor": "0", "device": "cpu"}, {"tensor": "0", "device": "cpu"}]}', "lacks"),
        ('{"plain": {"a": 1}}', "a dict as plain data"),
        ('{"plain": [1]}', "a list as plain data"),
        ('{"map": [1]}', "lacks"),
        ('{"other": 1}', "lacks 'plain'"),
        ('"tensor"', "lacks"),
        ("17", "lacks"),
        ("null", "lacks"),
        ("{", "Expecting"),
        ('{"plain": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_crafted_files(tree: str, reason: str, tmp_path: Path) -> None:
    """Whoever made a file, what is wrong with it is one kind of error."""
    crafted(tree, {"0": torch.ones(2)}, tmp_path / "file")
    with pytest.raises(ValueError, match=reason):
        state.read(tmp_path / "file")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2, torch.complex64])
def test_tensors_of_types_that_no_state_has(dtype: torch.dtype, tmp_path: Path) -> None:
    given = {"tree": '{"tensor": "0", "device": "cpu"}', "crc32": {"0": 0, "tree": 0}}
    texts = {"state": json.dumps(given)}
    save_file({"0": torch.zeros(2, dtype=dtype)}, tmp_path / "file", metadata=texts)
    with pytest.raises(ValueError, match=r"it lacks|does not match"):
        state.read(tmp_path / "file")
