from __future__ import annotations

import csv
import io
import tempfile
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairbandit.environments import csv_records, reading
from fairbandit.environments.reading import Block, Source
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
    assert "line 2: expected a number of at most 1e+100, got an infinite number" in refused(
        text(tmp_path, "b\ninf\n")
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    "marker", ["NA", " na ", "N/A", "#N/A", "nan", "NaN", "-nan", "null", "NULL", "None", "<NA>"]
)
def test_label_that_spells_a_missing_value(tmp_path, ending, marker):
    path = write(tmp_path / f"t.{ending}", {"b": ["x", "y", marker]})
    where = "line 4" if ending == "csv" else "row 3"
    message = refused(path, read="labels")
    assert f"column 'b', {where}: {marker.strip()!r} stands for a missing value" in message


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_that_only_contain_a_missing_value(tmp_path, ending):
    names = ["NAM", "nanny", "none of these", "Nil", "0"]
    (block,) = Source(write(tmp_path / f"t.{ending}", {"b": names})).blocks(["b"])
    assert block.labels("b")[0] == names


INTEGERS = [2**53 + 1, -(2**53) - 1, 2**62 + 1, 10**18 + 1]
DIGITS = ["0.1234567890123456789", "12345678901.1234567891", "1e-400", "4e-324"]


@pytest.mark.parametrize("number", [*INTEGERS, *DIGITS, f"1{'0' * 30}"])
def test_number_that_float64_cannot_hold(tmp_path, number):
    texts = ["1", str(number)]
    tables: list[tuple[str, Any, str]] = [("t.csv", texts, "line 3"), ("t.parquet", texts, "row 2")]
    if isinstance(number, int):
        tables += [("i.parquet", pa.array([1, number]), "row 2")]
    if number in DIGITS[:2]:
        tables += [("d.parquet", pa.array([Decimal(1), Decimal(str(number))]), "row 2")]
    for name, cells, where in tables:
        path = write(tmp_path / name, {"b": cells})
        message = refused(path)
        assert f"column 'b', {where}: float64 cannot hold {str(number)[:60]}, which" in message


@settings(deadline=None)
@given(st.floats(-1e100, 1e100))
@example(2.0**-24)  # its shortest form, of 16 digits, is half a unit of the last digit off
def test_every_float64_is_read_as_python_writes_it(value):
    cells = [repr(value), f"{value:.17g}", f"{value:.30e}"]
    block = Block(Path("t.csv"), 0, pa.RecordBatch.from_pydict({"b": cells}))
    assert block.numbers("b").tolist() == [value] * 3


@settings(deadline=None)
@given(st.integers(-(2**63), 2**64 - 1), st.integers(0, 20), st.sampled_from([1, 2**10, 2**53]))
def test_a_number_is_exact_or_refused(integer, places, factor):
    """Whole numbers are held exactly, others to the last digit, by exact arithmetic."""
    digits = str(integer * factor)
    text = str(Decimal(digits).scaleb(-places, Context(prec=100)))
    block = Block(Path("t.csv"), 0, pa.RecordBatch.from_pydict({"b": [text]}))
    nearest = Fraction(float(text))
    off = abs(Fraction(text) - nearest)
    written = Decimal(text)
    unit = Fraction(10) ** int(written.as_tuple().exponent)
    if off * 2 < unit:
        assert Fraction(block.numbers("b")[0]) == nearest
    elif off * 2 > unit:
        with pytest.raises(FairbanditError, match="float64 cannot hold"):
            block.numbers("b")


def test_integers_that_float64_holds(tmp_path):
    values = [2**53, -(2**53), 2**53 + 2, 2**60]
    for cells in (pa.array(values), pa.array(map(str, values)), pa.array(map(Decimal, values))):
        assert column(write(tmp_path / "t.parquet", {"b": cells}), "b").tolist() == values
    assert column(write(tmp_path / "t.csv", {"b": values}), "b").tolist() == values


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("number", ["1e308", "-1.1e100", "inf", "1" * 5000])
def test_number_that_is_too_large(tmp_path, ending, number):
    cells: Any = ["1", number] if ending == "csv" else [1.0, float(number)]
    message = refused(write(tmp_path / f"t.{ending}", {"b": cells}))
    where = "line 3" if ending == "csv" else "row 2"
    assert f"column 'b', {where}: expected a number of at most 1e+100, got" in message


@pytest.mark.parametrize("spelling", ["true", "True", "TRUE", " true "])
def test_truth_values_mean_the_same_everywhere(tmp_path, spelling):
    tables = {
        "t.csv": [spelling, spelling, "False", "1"],
        "s.parquet": [spelling, spelling, "false", "1"],
        "b.parquet": [True, True, False, True],
    }
    for name, cells in tables.items():
        path = write(tmp_path / name, {"b": cells})
        assert column(path, "b").tolist() == [1, 1, 0, 1]
        (block,) = Source(path).blocks(["b"])
        names, places = block.labels("b")
        assert [names[place] for place in places][:3] == ["true", "true", "false"]


@pytest.mark.parametrize("content", ["a,b\n1,2\n3,45", "a,b", 'a,b\n1,2\n3,"4"', "a,b\n1,2\n3,"])
def test_file_without_its_last_line_end(tmp_path, content):
    line = content.count("\n") + 1
    message = refused(text(tmp_path, content))
    assert f"column 'b', line {line}: the file ends without a line end" in message or line == 1
    assert "the file ends without a line end, so this cell may be cut short" in message
    assert column(text(tmp_path, f"{content}\n1,2\n"), "a").size


@pytest.mark.parametrize("cut", range(1, 40))
def test_no_cut_inside_a_record_goes_unseen(tmp_path, cut):
    whole = 'a,b\n1,"2"\n"x\ny","3"\n4,5\n6,70\n'
    content = whole[: min(cut, len(whole))]
    if content in {'a,b\n1,"2"\n', 'a,b\n1,"2"\n"x\ny","3"\n', whole} or content == "a,b\n":
        consume(text(tmp_path, content), "b", "texts")
    elif content == 'a,b\n1,"2"\n"x\ny","3"\n4,5\n':
        assert column(text(tmp_path, content), "b").tolist() == [2, 3, 5]
    else:
        with pytest.raises(FairbanditError, match=r"ends without a line end|never closed"):
            consume(text(tmp_path, content), "b", "texts")


@pytest.mark.parametrize("row", ['1,5"', '1,"a"b', '1,5"10', '1, "a"', '1,"a" '])
def test_quotation_mark_out_of_place(tmp_path, row):
    message = refused(text(tmp_path, f'a,b\n"x\ny",2\n{row}\n1,"z"\n'))
    assert "column 'b', line 4: a quotation mark stands inside a cell" in message


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_lines_are_those_of_the_file(tmp_path, monkeypatch, end, size):
    """Quoted line breaks and blank lines count; every cell is named by its own line."""
    monkeypatch.setattr(csv_records, "BLOCK_BYTES", size)
    lines = ["", '"a', '",b', "1,2", "", '"x', "", 'y",bad', "3,4"]
    path = text(tmp_path, end.join(lines) + end)
    name = f"a{end}"
    assert Source(path).columns == [name, "b"]
    assert "column 'b', line 8: expected a number, got the text 'bad'" in refused(path)
    assert f"column {name!r}, line 6: expected a number" in refused(path, name)


@settings(max_examples=40, deadline=None)  # it writes files
@given(
    st.lists(
        st.lists(st.text('ab",\r\n 1', max_size=5), min_size=3, max_size=3), min_size=1, max_size=9
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 40),
    st.booleans(),
)
def test_cells_are_those_of_the_standard_library(rows, end, size, quoted):
    quoted = quoted or any(set(cell) & set("\r\n") for row in rows for cell in row)
    written = io.StringIO(newline="")
    writer = csv.writer(
        written, lineterminator=end, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    )
    writer.writerow(["p", "q", "r"])
    writer.writerows(rows)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(csv_records, "BLOCK_BYTES", size)
        path = Path(folder, "t.csv")
        path.write_bytes(written.getvalue().encode())
        for index, name in enumerate("pqr"):
            blocks = list(Source(path).blocks([name]))
            cells = [cell for block in blocks for cell in block.batch.column(0).to_pylist()]
            assert cells == [row[index] for row in rows]


def test_line_that_never_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_records, "BLOCK_BYTES", 100)
    monkeypatch.setattr(csv_records, "LARGEST_RECORD", 1000)
    path = text(tmp_path, 'a,b\n1,2\n3,"4\n' + "5,6\n" * 1000)
    assert "column 'b', line 3: the quotation mark that begins this cell" in refused(path)
    path = text(tmp_path, "a,b\n1,2\n3," + "4" * 5000)
    assert "line 3: the line is longer than" in refused(path)


def test_cells_of_a_wide_table_are_found_by_name(tmp_path):
    """As many columns as a table may reasonably have, in a time that grows with their number."""
    names = [f"c{i}" for i in range(50_000)]
    row = ",".join(str(i) for i in range(50_000))
    path = text(tmp_path, ",".join(names) + "\n" + row + "\n")
    source = Source(path)
    source.require(names)
    (block,) = source.blocks(names)
    assert [block.numbers(name)[0] for name in names[::997]] == list(range(0, 50_000, 997))
    twice = text(tmp_path, ",".join([*names, "c7", "c7", "c9"]) + "\n", "twice.csv")
    assert "column 'c7', 'c9' stands more than once in the header" in refused(twice)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_unnamed_column_that_stands_twice(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        path.write_text("b,,\n1,2,3\n")
    else:
        arrays = [pa.array([value]) for value in (1, 2, 3)]
        pq.write_table(pa.Table.from_arrays(arrays, names=["b", "", ""]), path)
    assert column(path, "b").tolist() == [1]
    assert "column '' stands more than once" in refused(path, "")


@pytest.mark.parametrize(
    "cells",
    [
        pa.nulls(2),
        pa.array([b"\xff"]),
        pa.array([b"a" * 16], pa.uuid()),
        pa.array([{"a": 1}]),
        pa.Array.from_buffers(
            pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
        ),
    ],
    ids=["null", "bytes", "uuid", "struct", "not UTF-8"],
)
@pytest.mark.parametrize("read", ["numbers", "labels"])
def test_parquet_cells_that_are_neither(tmp_path, cells, read):
    path = write(tmp_path / "t.parquet", {"b": cells})
    assert "column 'b'" in refused(path, read=read)


def test_damaged_page_of_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"b": np.arange(1000.0)})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    damaged = bytearray(path.read_bytes())
    damaged[4000] ^= 1
    path.write_bytes(damaged)
    assert "is not a readable Parquet file; it may be truncated" in refused(path)


def test_labels_of_numbers_are_written_alike(tmp_path):
    values = [10_000_000_000.0, 123456789012.5, -0.0]
    for name in ("t.csv", "t.parquet"):
        (block,) = Source(write(tmp_path / name, {"b": values})).blocks(["b"])
        assert block.labels("b")[0] == ["10000000000", "123456789012.5", "0"]
    (block,) = Source(text(tmp_path, f"b\n{'0' * 9}{'9' * 5000}\n")).blocks(["b"])
    assert block.labels("b")[0] == ["9" * 5000]


def test_empty_label(tmp_path):
    message = refused(text(tmp_path, "a,b\n1,x\n1,\n"), read="labels")
    assert "column 'b', line 3: the cell is empty" in message
