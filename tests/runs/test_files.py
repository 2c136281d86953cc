"""Saved rows and rewards are read as they were written, or not at all."""

import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from fairbandit.errors import FairbanditError
from fairbandit.runs import summary as summaries
from fairbandit.runs.execute import execute
from fairbandit.runs.saved import Run
from fairbandit.runs.scenes import read_scenes

ROWS = "part-000000-000000001.parquet"


@pytest.fixture
def run(config, tmp_path):
    """The folder of a small finished run."""
    execute({**config, "rounds": 6}, tmp_path / "run")
    return tmp_path / "run"


def test_every_bit_of_a_summary_counts(run):
    path, found = run / "summary.json", summaries.read(run)
    whole = path.read_bytes()
    for place in random.Random(0).sample(range(8 * len(whole)), 500):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with suppress(FairbanditError):
            assert summaries.read(run) == found  # as when a space became a tab


@pytest.mark.parametrize("name", ["finals", "curves", "rewards"])
def test_files_that_are_damaged_gone_or_from_elsewhere(run, name):
    path = run / f"{name}.parquet"
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 4
    for contents in (bytes(whole), (run / "rounds" / ROWS).read_bytes()):
        path.write_bytes(contents)
        with pytest.raises(FairbanditError, match="its contents have changed"):
            getattr(Run(run, summaries.read(run)), name)
    path.unlink()
    with pytest.raises(FairbanditError, match=rf"cannot read .*{name}\.parquet: No such file"):
        getattr(Run(run, summaries.read(run)), name)


@pytest.mark.parametrize(
    "cut",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[" * 100_000,
        lambda text: text.replace('"seed": 1', '"seed": 3'),
    ],
)
def test_a_damaged_summary_is_named_by_all_readers(config, run: Path, cut):
    path = run / "summary.json"
    path.write_text(cut(path.read_text()))
    for reader in (
        lambda folder: read_scenes([folder]),
        lambda folder: execute({**config, "rounds": 6}, folder),
    ):
        with pytest.raises(FairbanditError, match=r"summary\.json is not a valid summary of a run"):
            reader(run)
    assert path.exists()


CRAFTED = [
    ("metrics", {"fair_regret": 3}, r"\$\.metrics"),
    ("metrics", {"\x1b[2Jx": None}, r"`key` in `\$\.metrics"),
    ("replicas", 10**400, r"\$\.replicas|out of range"),
    ("rounds", 10**12, r"\$\.rounds"),
    ("files", {"rounds/../../x.parquet": "0" * 64}, r"`key` in `\$\.files"),
]


@pytest.mark.parametrize(("key", "value", "named"), CRAFTED)
def test_a_crafted_summary_with_a_right_checksum_is_refused_by_its_reader(run, key, value, named):
    summary = summaries.read(run) | {key: value}
    summaries.write(summary | {"checksum": summaries.checksum(summary)}, run)
    with pytest.raises(FairbanditError, match=rf"summary\.json is not a valid summary .*{named}"):
        summaries.read(run)


def test_a_summary_that_is_no_file_is_named(run):
    """A pipe would block its reader for ever."""
    (run / "summary.json").unlink()
    os.mkfifo(run / "summary.json")
    with pytest.raises(
        FairbanditError, match=r"summary\.json is not a valid .*it is not a regular file"
    ):
        read_scenes([run])
