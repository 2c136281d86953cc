from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairbandit.environments import csv_records, reading
from fairbandit.environments.reading import Source
from fairbandit.errors import FairbanditError
from tests.environments.data import people, write


def column(path: Path, name: str) -> Any:
    return np.concatenate([block.numbers(name) for block in Source(path).blocks([name])])


def refused(path: Path, name: str = "b", read: str = "numbers") -> str:
    """The message with which reading a column fails."""
    with pytest.raises(FairbanditError) as caught:
        consume(path, name, read)
    return str(caught.value)


def consume(path: Path, name: str, read: str) -> None:
    for block in Source(path).blocks([name]):
        getattr(block, read)(name)


def text(tmp_path: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_blocks_join_to_the_column(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(csv_records, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(reading, "BLOCK_ROWS", 50)
    table = people(count=400)
    path = write(tmp_path / f"t.{ending}", table)
    blocks = list(Source(path).blocks(["age", "wage"]))
    assert len(blocks) > 3
    assert [block.start for block in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()
    assert np.concatenate([block.numbers("wage") for block in blocks]).tolist() == table["wage"]
    assert {name for block in blocks for name in block.batch.schema.names} == {"age", "wage"}


def test_lines_are_numbered_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_records, "BLOCK_BYTES", 1 << 10)
    table = people(count=400)
    table["age"][300] = "old"
    message = refused(write(tmp_path / "t.csv", table), "age")
    assert "column 'age', line 302" in message
    assert "expected a number, got the text 'old'" in message


def test_numbers_of_every_spelling(tmp_path):
    path = text(tmp_path, 'a,b\nx,007\nx, 1.5\nx,"2"\nx,1e3\nx,-4\n')
    assert column(path, "b").tolist() == [7, 1.5, 2, 1000, -4]


def test_byte_order_mark_windows_lines_and_quoted_line_breaks(tmp_path):
    path = text(tmp_path, b'\xef\xbb\xbfa,b\r\n"x\ny",1\r\n"x,y",2\r\n')
    assert column(path, "b").tolist() == [1, 2]
    assert Source(path).columns == ["a", "b"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 3], pa.int8()),
        pa.array([1, 2, 3], pa.float32()),
        pa.array(["1", "2", "3"]),
        pa.array(["1", "2", "3"], pa.large_string()),
        pa.array(["1", "2", "3"]).dictionary_encode(),
        pa.array([1, 2, 3], pa.decimal128(5, 0)),
    ],
    ids=lambda values: str(values.type),
)
def test_parquet_types_that_are_numbers(tmp_path, values):
    path = write(tmp_path / "t.parquet", {"b": values})
    assert column(path, "b").tolist() == [1, 2, 3]
    (block,) = Source(path).blocks(["b"])
    names, places = block.labels("b")
    assert [names[place] for place in places] == ["1", "2", "3"]


def test_parquet_types_that_are_not_numbers(tmp_path):
    days = write(tmp_path / "t.parquet", {"b": pa.array([0], pa.date32())})
    assert "expected numbers, got date32" in refused(days)
    lists = write(tmp_path / "l.parquet", {"b": pa.array([[1]])})
    assert "expected labels or codes, got list" in refused(lists, read="texts")


def test_labels_are_written_alike(tmp_path):
    path = text(tmp_path, "b\n1\n1.0\n01\n -2 \n1.5\nmale\n")
    (block,) = Source(path).blocks(["b"])
    names, places = block.labels("b")
    assert [names[place] for place in places] == ["1", "1", "1", "-2", "1.5", "male"]


def test_missing_file(tmp_path):
    assert "there is no file" in refused(tmp_path / "none.csv")
    assert "there is no file" in refused(tmp_path)


def test_unknown_ending(tmp_path):
    path = text(tmp_path, "b\n1\n", name="t.xlsx")
    assert "'.xlsx'; expected .csv or .parquet" in refused(path)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_empty_file(tmp_path, name):
    assert "is empty" in refused(text(tmp_path, "", name))


def test_file_without_a_header(tmp_path):
    assert "has no column 'b'; it has none" in refused(text(tmp_path, "\n\n"))


def test_lacking_column_lists_what_there_is(tmp_path):
    path = text(tmp_path, "a,c\n1,2\n")
    assert "has no column 'b'; it has 'a', 'c'" in refused(path)


def test_duplicate_header(tmp_path):
    assert "column 'b' stands more than once" in refused(text(tmp_path, "b,a,b\n1,2,3\n"))
    assert column(text(tmp_path, "b,,\n1,,\n"), "b").tolist() == [1]  # a spreadsheet's leftovers
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["b", "b"])
    pq.write_table(table, tmp_path / "t.parquet")
    assert "column 'b' stands more than once" in refused(tmp_path / "t.parquet")


def test_row_with_too_few_or_too_many_columns(tmp_path):
    message = refused(text(tmp_path, "a,b,c\n1,2,3\n1,2\n"))
    assert "line 3: expected 3 columns, got 2 ('1,2'); the file may be truncated" in message
    assert "line 2: expected 3 columns, got 4" in refused(text(tmp_path, "a,b,c\n1,2,3,4\n"))


def test_quote_that_is_never_closed(tmp_path):
    message = refused(text(tmp_path, 'a,b,c\n1,2,3\n1,"2,3\n'))
    assert "column 'b', line 3: the quotation mark that begins this cell is never closed" in message


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_truncated_parquet(tmp_path, share):
    path = write(tmp_path / "t.parquet", people())
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    message = refused(path, "age")
    assert "is not a readable Parquet file; it may be truncated" in message
    assert "\n" not in message


def test_csv_under_a_parquet_name(tmp_path):
    assert "is not a readable Parquet file" in refused(text(tmp_path, "b\n1\n", "t.parquet"))


def test_csv_that_is_not_utf8(tmp_path):
    assert "column 'b', line 3: the cell is not UTF-8" in refused(text(tmp_path, b"b\n1\n\xff\n"))
    assert "has no column 'b'; it has '\ufffd'" in refused(text(tmp_path, b"\xff\n1\n"))
    assert column(text(tmp_path, b"a,b\n\xff,1\n"), "b").tolist() == [1]  # not in use


@pytest.mark.parametrize("cell", ["", "  ", "nan", "NaN"])
def test_missing_cell_in_csv(tmp_path, cell):
    path = text(tmp_path, f"a,b\n1,1\n1,{cell}\n")
    assert "column 'b', line 3: expected a number, got NaN or an empty cell" in refused(path)
    (block,) = Source(path).blocks(["b"])
    assert np.isnan(block.numbers("b", missing=True)[1])


@pytest.mark.parametrize("values", [[1, None], [1.0, float("nan")], ["1", None], ["1", ""]])
@pytest.mark.parametrize("read", ["numbers", "labels"])
def test_missing_cell_in_parquet(tmp_path, values, read):
    path = write(tmp_path / "t.parquet", {"b": pa.array(values)})
    assert "column 'b', row 2" in refused(path, read=read)


def test_infinite_cell(tmp_path):
    assert "line 2: expected a number of at most 1e+100, got an infinite number" in refused(text(tmp_path, "b\ninf\n"))


def test_empty_label(tmp_path):
    message = refused(text(tmp_path, "a,b\n1,x\n1,\n"), read="labels")
    assert "column 'b', line 3: the cell is empty" in message
