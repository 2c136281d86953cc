"""Saved rows and rewards are read as they were written, or not at all."""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fairbandit.audit import report
from fairbandit.errors import FairbanditError
from fairbandit.results import read_scenes
from fairbandit.results.files import opened, row_groups
from fairbandit.run import summary as summaries
from fairbandit.run.execute import execute

ROWS = "rounds/part-000000-000000001.parquet"


@pytest.fixture
def run(config, tmp_path):
    """The folder of a small finished run."""
    execute({**config, "rounds": 6}, tmp_path / "run")
    return tmp_path / "run"


def _without_hashes(run: Path) -> dict[str, object]:
    """The summary of a run as of before summaries had an identity."""
    since = ("files", "identity", "checksum")
    return {key: value for key, value in summaries.read(run).items() if key not in since}


@pytest.mark.parametrize("name", [ROWS, "rewards.parquet"])
def test_every_flipped_bit_is_noticed(run, name):
    """Bits of pages, of their headers, and of the footer, which Parquet's checksums leave out."""
    summary, path = summaries.read(run), run / name
    whole = path.read_bytes()
    with opened(run, name, summary) as file:
        expected = file.read()
    assert expected.equals(pq.read_table(path, partitioning=None))
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    places = [
        *random.Random(0).sample(range(8 * footer), 300),
        *random.Random(1).sample(range(8 * footer, 8 * len(whole)), 300),
    ]
    for place in places:
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with (
            pytest.raises(FairbanditError, match="cannot be read: its contents are not those"),
            opened(run, name, summary),
        ):
            pytest.fail("read")
    path.write_bytes(whole[:-1])
    with pytest.raises(FairbanditError, match="cannot be read"), opened(run, name, summary):
        pytest.fail("read")


@pytest.mark.parametrize("name", [ROWS, "rewards.parquet"])
def test_pages_carry_checksums_for_any_reader(run, name):
    path = run / name
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(0).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    whole = bytearray(path.read_bytes())
    whole[start + column.total_compressed_size - 1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(OSError, match=r"(?i)crc"):
        pq.read_table(path, page_checksum_verification=True, partitioning=None)
    older = _without_hashes(run)
    with pytest.raises(FairbanditError, match="cannot be read"), opened(run, name, older) as file:
        file.read()


def test_all_readers_refuse_damaged_files(run, tmp_path):
    for name in (ROWS, "rewards.parquet"):
        shutil.copytree(run, tmp_path / "damaged")
        path = tmp_path / "damaged" / name
        whole = bytearray(path.read_bytes())
        whole[len(whole) // 2] ^= 4
        path.write_bytes(whole)
        (scene,) = read_scenes([tmp_path / "damaged"])
        with pytest.raises(FairbanditError, match="cannot be read"):
            _ = scene.rewards if name == "rewards.parquet" else scene.runs[0].curves
        if name == ROWS:
            with pytest.raises(FairbanditError, match="cannot be read"):
                report(tmp_path / "damaged", out=tmp_path / "out")
        shutil.rmtree(tmp_path / "damaged")


def test_every_bit_of_a_summary_counts(run):
    path, found = run / "summary.json", summaries.read(run)
    whole = path.read_bytes()
    for place in random.Random(0).sample(range(8 * len(whole)), 500):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with suppress(FairbanditError):
            assert summaries.read(run) == found  # as when a space became a tab


def test_files_that_are_lacking_or_from_elsewhere(run):
    summary = summaries.read(run)
    part = run / ROWS
    shutil.copy(part, part.with_name("part-000009-000000001.parquet"))
    with pytest.raises(FairbanditError, match=r"part-000009-000000001\.parquet from elsewhere"):
        list(row_groups(run, summary, []))
    part.unlink()
    with pytest.raises(FairbanditError, match=r"part-000000-000000001\.parquet lacking"):
        list(row_groups(run, summary, []))


def test_rows_of_a_run_that_recorded_no_hashes(run):
    older = _without_hashes(run)
    with opened(run, ROWS, older) as file:
        rows = file.read()
    assert rows.num_rows == 18
    ((first, columns),) = row_groups(run, older, ["propensity"])
    assert (first, columns["propensity"].shape) == (1, (3, 6))
    pq.write_table(rows.rename_columns([*rows.column_names[:-1], "other"]), run / ROWS)
    with pytest.raises(FairbanditError, match="it has no column 'propensity'"):
        list(row_groups(run, older, ["propensity"]))


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (lambda text: text[: len(text) // 2], "is not valid JSON"),
        (lambda text: "[" * 100_000, "is not valid JSON"),
        (lambda text: "", "is not valid JSON"),
        (lambda text: text.replace('"files"', '"fools"'), "'files' should be a dict, got None"),
        (lambda text: text.replace('"groups"', '"group"'), "'groups' should be a list, got None"),
        (lambda text: text.replace('"received"', '"got"'), "'received' should have a mean and"),
        (lambda text: text.replace('"seconds": ', '"seconds": "x'), "is not valid JSON"),
        (lambda text: text.replace('"rounds": 6', '"rounds": true'), "'rounds' should be a int"),
        (lambda text: text.replace('"identity"', '"idendity"'), "'identity' should be a dict"),
        (lambda text: text.replace('"checksum"', '"checksun"'), "'checksum' should be a str"),
        (lambda text: text.replace('"seed": 1', '"seed": 3'), "its checksum is not that of its"),
    ],
)
def test_a_damaged_summary_is_named_by_all_readers(config, run: Path, cut, message):
    path = run / "summary.json"
    path.write_text(cut(path.read_text()))
    with pytest.raises(FairbanditError) as caught:
        report(run)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    with pytest.raises(FairbanditError):
        read_scenes([run])
    with pytest.raises(FairbanditError):
        execute({**config, "rounds": 6}, run)
    assert path.exists()
