"""Hostile tables of one's own: each works, or one message says what to type."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairbandit.environments import Table, inference
from fairbandit.environments.reading import Source
from fairbandit.environments.remarks import remark
from fairbandit.environments.selection import Missing
from fairbandit.errors import FairbanditError
from tests.environments.data import write

COUNT = 60

both = pytest.mark.parametrize("ending", ["csv", "parquet"])


@pytest.fixture(autouse=True)
def fresh_remarks():
    remark.cache_clear()


def columns(**more: Any) -> dict[str, Any]:
    """A sound table with some columns beside the group `g`, the reward `r` and the number `x`."""
    plain = {
        "g": ["ab"[row % 2] for row in range(COUNT)],
        "r": [float(row * row % 17) for row in range(COUNT)],
        "x": [row * 7 % 23 for row in range(COUNT)],
    }
    return plain | {name: [make(row) for row in range(COUNT)] for name, make in more.items()}


def made(tmp_path: Path, ending: str, table: dict[str, Any], **parameters: Any) -> Table:
    path = write(tmp_path / f"t.{ending}", table)
    return Table(path=str(path), **{"group": "g", "reward": "r"} | parameters)


def refused(tmp_path: Path, ending: str, table: dict[str, Any], **parameters: Any) -> str:
    with pytest.raises(FairbanditError) as caught:
        made(tmp_path, ending, table, **parameters)
    return str(caught.value)


@both
def test_numbers_truth_values_and_texts(tmp_path, ending, caplog):
    table = columns(h=lambda row: row / 8, b=lambda row: row % 3 == 0, t=lambda row: "zyx"[row % 3])
    found = made(tmp_path, ending, table)
    assert found.resolved_columns == {"x": None, "h": None, "b": None, "t": ["x", "y", "z"]}
    assert found.feature_names == ("x", "h", "b", "t=x", "t=y", "t=z", "bias")
    explicit = made(tmp_path, ending, table, columns=found.resolved_columns)
    assert found.members.contexts.equal(explicit.members.contexts)
    assert not caplog.text


def test_both_formats_are_judged_alike(tmp_path):
    """Also where a block of the file is judged otherwise than the whole."""
    table = columns(
        b=lambda row: row % 2 == 0,
        day=lambda row: datetime.date(2020, 1, 1 + row % 9),
        time=lambda row: datetime.datetime(2020, 1, 1, row % 24),
        zip=lambda row: ["01234", "90210"][row % 2],
        year=lambda row: ["1999", "2000"][row % 2],
        id=lambda row: 2**60 + row,
        half=lambda row: "" if row < 30 else "no",
    )
    every = [made(tmp_path, ending, table, missing=Missing.mean) for ending in ("csv", "parquet")]
    assert every[0].resolved_columns == every[1].resolved_columns
    assert every[0].resolved_columns == {"x": None, "b": None, "zip": ["01234", "90210"]} | {
        "year": None
    }
    assert every[0].fingerprint() == every[1].fingerprint()


@both
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda row: datetime.date(2020, 1, 1 + row % 9), "dates or times"),
        (lambda row: f"{1 + row % 9}/{1 + row % 12}/2020", "dates or times"),
        (lambda row: f"{row % 24}:{row:02}", "dates or times"),
        (lambda row: 3.5, "the same value everywhere"),
        (lambda row: ["1", "1.0"][row % 2], "the same value everywhere"),
        (lambda row: "NL", "the same value everywhere"),
        (lambda row: ["NA", "nan"][row % 2], "no value"),
        (lambda row: str(row) if row else "unknown", "numbers or dates beside texts"),
        (lambda row: f"person {row}", "a text of its own in most rows, as names have"),
        (lambda row: 2**60 + row, "a text of its own in most rows, as names have"),
    ],
)
def test_what_is_no_feature_is_named(tmp_path, ending, make, reason, caplog):
    found = made(tmp_path, ending, columns(odd=make))
    assert found.feature_names == ("x", "bias")
    (record,) = caplog.records
    assert f"these columns are no features: 'odd' ({reason}). environment.columns" in record.message
    assert "environment.columns=FILE.yaml" in record.message


def test_cells_without_a_text_form_are_no_features(tmp_path, caplog):
    table = columns(odd=lambda row: [row], bytes=lambda row: b"\xff", y=lambda row: row)
    assert made(tmp_path, "parquet", table).feature_names == ("x", "y", "bias")
    assert "'odd' (cells of type list<" in caplog.text
    assert "'bytes' (cells of type binary)" in caplog.text


def test_an_index_and_a_column_without_a_name_are_no_features(tmp_path, caplog):
    table = columns(**{"": lambda row: row, "__index_level_0__": lambda row: row})
    assert made(tmp_path, "csv", table).feature_names == ("x", "bias")
    assert "'' (no name), '__index_level_0__' (an index)" in caplog.text


def test_a_remark_is_made_once(tmp_path, caplog):
    for _ in range(2):
        made(tmp_path, "csv", columns(odd=lambda row: "NL"))
    assert len(caplog.records) == 1


@both
def test_no_column_is_left(tmp_path, ending):
    table = {name: cells for name, cells in columns(odd=lambda row: "NL").items() if name != "x"}
    message = refused(tmp_path, ending, table)
    assert "no column is left to be a feature; beside 'g', 'r' there is 'odd' (the same" in message
    assert "environment.columns={NAME: null, NAME: category}" in message


@both
def test_a_missing_cell(tmp_path, ending):
    table = columns(y=lambda row: None if row == 4 else row)
    where = "line 6" if ending == "csv" else "row 5"
    message = refused(tmp_path, ending, table)
    assert f"column 'y', {where}: expected a number, got NaN or an empty cell" in message
    assert "environment.missing=drop leaves out rows with missing cells" in message


@both
def test_names_in_any_script_and_with_blanks(tmp_path, ending):
    names = {"g": "性別", "r": "Größe (cm)", "x": "my = column"}
    table = {names[name]: cells for name, cells in columns().items()}
    found = made(tmp_path, ending, table, group="性別", reward="Größe (cm)")
    assert found.feature_names == ("my = column", "bias")


@both
def test_a_category_of_five_hundred_values(tmp_path, ending):
    rows = range(1100)
    table = {
        "g": ["ab"[row % 2] for row in rows],
        "r": [float(row * row % 17) for row in rows],
        "t": [f"t{row % 500:03}" for row in rows],
    }
    assert made(tmp_path, ending, table).features == 501


@both
def test_one_group(tmp_path, ending):
    message = refused(tmp_path, ending, columns() | {"g": ["a"] * COUNT})
    assert "1 group(s) of column 'g'" in message
    assert "environment.group names another column" in message


def test_two_columns_of_one_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("g,r,x,x\na,1,2,3\nb,2,3,4\n")
    with pytest.raises(FairbanditError, match=r"'x' stands more than once .* rename one of them"):
        Table(path=str(path), group="g", reward="r")


@both
def test_more_texts_than_a_category_takes(tmp_path, ending, monkeypatch, caplog):
    monkeypatch.setattr(inference, "MOST_CODES", 10)
    table = columns(t=lambda row: f"t{row % 11}")
    assert made(tmp_path, ending, table).feature_names == ("x", "bias")
    assert "'t' (more than 10 texts)" in caplog.text
    message = refused(tmp_path, ending, table, columns={"t": "category"})
    assert "column 't': it cannot be a category" in message
    assert "it has more than 10 distinct values" in message
    table = columns(t=lambda row: f"t{row % 10}")
    assert made(tmp_path, ending, table).features == 12


@both
def test_the_other_table_is_judged_too(tmp_path, ending):
    other = columns(t=lambda row: "wz"[row % 2])
    scaler = write(tmp_path / f"d1.{ending}", other)
    table = columns(t=lambda row: "xyz"[row % 3])
    found = made(tmp_path, ending, table, scaler_path=str(scaler))
    assert found.resolved_columns["t"] == ["w", "x", "y", "z"]


def test_blocks_are_judged_together(tmp_path):
    """Each block alone would be a number, a date, or constant."""
    cells = ["1", "2", "2020-01-02", "x", None, None]
    table = pa.table({"c": cells, "d": ["a"] * 4 + ["b"] * 2})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    found = inference.contents([Source(tmp_path / "t.parquet")], ["c", "d"])
    assert found["c"].kinds == {"integer", "date", "text"}
    assert found["c"].texts == {"1", "2", "2020-01-02", "x"}
    assert found["d"].codes() == ["a", "b"]


@pytest.mark.parametrize(
    ("cells", "codes"),
    [
        (["10", "9", "1.50"], [1.5, 9, 10]),
        ([" b", "a ", "NA"], ["a", "b"]),
        (["True", "false", "1"], ["1", "false", "true"]),
        (["01", "1"], ["01", "1"]),
    ],
)
def test_codes_of_a_chosen_category(tmp_path, cells, codes):
    for ending in ("csv", "parquet"):
        source = Source(write(tmp_path / f"t.{ending}", {"c": cells}))
        found = inference.codes_of([source], ["c"])["c"]
        assert found == codes
        assert [type(code) for code in found] == [type(code) for code in codes]


def test_what_is_judged_a_number_is_read_as_one(tmp_path):
    """The spellings here are those that the reader takes."""
    cells = ["1", "-2", "+3", "0", "1.", ".5", "-.5e3", "1e5", "2E-3", "true", "FALSE", " 7 "]
    source = Source(write(tmp_path / "t.csv", {"c": cells}))
    assert inference.contents([source], ["c"])["c"].is_number
    (block,) = source.blocks(["c"])
    assert np.isfinite(block.numbers("c")).all()
    for cell in ("1e", "0x1f", "1_000", "1,5", "٣", "--1", "."):
        source = Source(write(tmp_path / "t.csv", {"c": [cell]}))
        assert inference.contents([source], ["c"])["c"].kinds == {"text"}
