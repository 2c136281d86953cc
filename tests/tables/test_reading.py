"""Cells, labels and errors of CSV and Parquet tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.errors import FairbanditError
from fairbandit.tables import cells
from fairbandit.tables.reading import MISSING, read_table
from tests.environments.data import people, write

both = pytest.mark.parametrize("ending", ["csv", "parquet"])


def text(tmp_path: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def of(*given: Any, decimal: str = ".") -> pd.DataFrame:
    """A table in memory with a column `b`."""
    array = given[0] if isinstance(given[0], pa.Array) else pa.array(given)
    return read_table(pa.table({"b": array}), decimal=decimal)


def refused(path: Any, *columns: str, **options: Any) -> str:
    with pytest.raises(FairbanditError) as caught:
        cells.need(read_table(path, **options), columns or ["b"])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def names(table: pd.DataFrame) -> list[Any]:
    return cells.labels(table, "b").tolist()


@both
def test_only_the_columns_asked_for_are_read(tmp_path, ending):
    table = people()
    path = write(tmp_path / f"t.{ending}", table)
    read = read_table(path, columns=["wage", "age"])
    assert read.columns.tolist() == ["age", "wage"]
    assert read["wage"].tolist() == table["wage"]
    assert [*read_table(path)] == [*table]


def test_numbers_of_every_spelling(tmp_path):
    spelt = ["7", " 1.5", "1e3", "-4", "+3", "1.", ".5", "-.5E-1", "True", "FALSE", ""]
    expected = [7, 1.5, 1000, -4, 3, 1, 0.5, -0.05, 1, 0, np.nan]
    rows = "".join(f"x,{cell}\n" for cell in spelt)
    read = read_table(text(tmp_path, f"a,b\n{rows}"))
    np.testing.assert_array_equal(read["b"], expected)
    np.testing.assert_array_equal(cells.numbers(of(*spelt[:-1], None), "b"), expected)
    for cell in ("1e", "0x1f", "1_000", "1,5", "٣", "--1", ".", "1.2.3", "1 2"):
        with pytest.raises(FairbanditError, match=r"'b', row 1 .from 0.: expected a number"):
            cells.numbers(of("1", cell), "b")


@given(st.lists(st.floats(-1e100, 1e100), min_size=1))
def test_every_float_is_read_as_python_writes_it(values):
    assert cells.numbers(of(*map(repr, values)), "b").tolist() == values


@pytest.mark.parametrize("cell", ["1e999", "-1e999", "1.8e308", "9" * 5000])
def test_a_number_that_is_too_large(cell):
    with pytest.raises(
        FairbanditError, match=r"'b', row 1 .from 0.: expected a number of at most 1e\+100"
    ):
        cells.numbers(of("1", cell), "b")


def test_one_number_is_one_label():
    assert {*names(of("1", "1.0", "+1", "1e0", "1.00", "10e-1", " 1 "))} == {"1"}
    assert names(of("01", "1", "007")) == ["01", "1", "007"]
    assert names(of(2.0, 0.5, float("nan"))) == ["2", "0.5", "unknown"]
    long = ["12345678901234567", "12345678901234568"]
    assert names(of(*long)) == names(of(*map(int, long))) == long


def test_a_csv_file_has_the_missing_cells_that_pandas_finds(tmp_path):
    spelt = [*MISSING, *map(str.lower, MISSING), *map(str.upper, MISSING), "none", "NaT", "?", "-"]
    path = text(tmp_path, "a,b\n" + "".join(f"x,{cell}\n" for cell in spelt))
    read = read_table(path)
    assert read["b"].isna().tolist() == pd.read_csv(path)["b"].isna().tolist()
    assert "none" in names(read)
    assert not of(*spelt)["b"].isna().any()
    pq.write_table(pa.table({"b": spelt}), tmp_path / "t.parquet")
    assert not read_table(tmp_path / "t.parquet")["b"].isna().any()


def test_a_list_of_missing_values_takes_the_place_of_the_default(tmp_path):
    table = {"b": ["?", "NA", None, "x"], "c": [-9.0, 1.5, None, 2.5], "d": [-9, 0, 1, 2]}
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for path in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
        gaps = read_table(path, missing_values=["?", "-9"]).isna()
        assert gaps["b"].tolist() == gaps["c"].tolist() == [True, False, True, False]
        assert gaps["d"].tolist() == [True, False, False, False]
    for wrong in ({"NA": 1}, [None], [False], 3.5j):
        assert "missing_values: expected a list of texts" in refused(path, missing_values=wrong)


def test_byte_order_mark_windows_lines_and_quoted_line_breaks(tmp_path):
    path = text(tmp_path, b'\xef\xbb\xbfa,b,,\r\n"x\ny",1,,\r\n"x,y",2,,\r\n')
    assert read_table(path).columns.tolist() == ["a", "b"]  # without those that have no name
    assert read_table(path)["b"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.csv", None, "there is no file"),
        ("t.parquet", "b\n1\n", "is not a readable table; it may be truncated"),
        ("t.csv", b"\xff\n1\n", "a CSV file must be in UTF-8"),
        ("t.csv", "a,b,c\n1,2,3\n1,2\n", "#3: Expected 3 columns, got 2: 1,2"),
        ("t.csv", "a,c\n1,2\n", "with separator=',' it has 'a', 'c'"),
        ("t.csv", "b,a,b\n1,2,3\n", "has more than one column 'b'"),
    ],
)
def test_a_file_that_is_not_as_it_should_be(tmp_path, name, content, problem):
    path = tmp_path / name if content is None else text(tmp_path, content, name)
    assert problem in refused(path)


def test_damaged_parquet(tmp_path):
    """A bit of a page, the end of the file, and a text that is not UTF-8."""
    path = tmp_path / "t.parquet"
    table = pa.table({"b": np.arange(1000.0)})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    buffers = [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    pq.write_table(pa.table({"b": pa.Array.from_buffers(pa.string(), 1, buffers)}), path)
    bit = whole[:4000] + bytes([whole[4000] ^ 1]) + whole[4001:]
    for damaged in (path.read_bytes(), bit, whole[:5000]):
        path.write_bytes(damaged)
        assert "is not a readable table; it may be truncated" in refused(path)


@pytest.mark.parametrize(("mark", "typed"), [(";", ";"), ("\t", "tab")])
def test_another_separator(tmp_path, mark, typed):
    path = text(tmp_path, f"a{mark}b\n1{mark}2,5\n")
    remedy = f"separator='{typed}', on the command line 'separator={typed}'"
    assert remedy in refused(path)
    assert read_table(path, separator=typed, decimal=",")["b"].tolist() == [2.5]


def test_decimal_commas():
    spelt = ["1,5", "-2", ",5", "1e3"]
    with pytest.raises(FairbanditError, match=r"with decimal='\.'; got '1,5'"):
        cells.numbers(of(*spelt), "b")
    assert cells.numbers(of(*spelt, decimal=","), "b").tolist() == [1.5, -2, 0.5, 1000]
    assert names(of("1,0", "01", "2,5", "a,b", decimal=",")) == ["1", "01", "2.5", "a,b"]
    with pytest.raises(FairbanditError, match=r"got '1\.234'"):  # a thousand and more?
        cells.numbers(of("1,5", "1.234", decimal=","), "b")
