"""Small tables in CSV and Parquet with at most one fault, compared with what was written.

A table without a fault must be accepted. What is accepted must hold the numbers and groups that
Python's own csv module and `float` read in it.
"""

import csv
import io
import math
import random
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fairbandit import build
from fairbandit.environments import Table
from fairbandit.errors import FairbanditError
from fairbandit.tables.reading import MISSING
from tests.fuzz.values import NUMBERS, TEXTS, damaged

COLUMNS = {"age": None, "job": ["x", "y"], "hours": None}

Row = dict[str, Any]


def tables(draw: random.Random, folder: Path) -> None:
    """The `table` environment."""
    rows, sound = _rows(draw), draw.random() < 0.1
    if draw.random() < 0.6:
        path = folder / "table.csv"
        path.write_bytes(_csv(draw, rows, sound))
    else:
        path = folder / "table.parquet"
        _parquet(draw, rows, sound, path)
    content = path.read_bytes()
    if not sound and draw.random() < 0.3:
        # a number of a Parquet file can change without a sign, but its end cannot be missing
        cut = content[: draw.randrange(len(content))]
        path.write_bytes(damaged(draw, content) if path.suffix == ".csv" else cut)
    spec = {"name": "table", "path": str(path), "group": "group", "reward": "wage"}
    try:
        table = build({**spec, "columns": COLUMNS})
    except FairbanditError as error:
        if sound or len(str(error)) > 2000:
            raise ValueError("a sound table is refused, or the message is long") from error
        raise
    assert isinstance(table, Table)
    if path.suffix == ".csv":
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
        header, *lines = (line for line in csv.reader(io.StringIO(text, newline="")) if line)
        assert all(len(line) == len(header) for line in lines), "accepted, with ragged rows"
        rows = [dict(zip(header, line, strict=True)) for line in lines]
        missing = {row["group"].strip() for row in rows} & {*MISSING}
    else:
        assert path.read_bytes() == content, "accepted, though cut short"
        labels = {row["group"] for row in rows}
        missing = {label for label in labels if label is None or label != label}
    assert not missing, "accepted, without a group"
    _compare(table, rows)


_PLAIN = [value for value in NUMBERS if type(value) in (int, float, bool, str, bytes)]


def _rows(draw: random.Random) -> list[Row]:
    names = draw.choice([["a", "b"], ["a", "b", "c"], ["1", "2"], ["north east", "ü"]])
    return [
        {
            "group": names[at % len(names)],
            "age": draw.randint(18, 80),
            "job": draw.choice("xy"),
            "hours": round(draw.uniform(0, 60), 2),
            "wage": round(draw.gauss(100, 20), 3),
            "note": draw.choice(["", "fine", "a, b", 'so "called"']),
        }
        for at in range(draw.randint(8, 40))
    ]


def _csv(draw: random.Random, rows: list[Row], sound: bool) -> bytes:
    """A file's bytes, with one fault of a cell, of a line or of the header."""
    fault = "none" if sound else draw.choice(["cell", "cell", "double", "missing", "line"])
    header, file = list(rows[0]), io.StringIO(newline="")
    if fault == "cell":
        draw.choice(rows)[draw.choice(header)] = draw.choice(TEXTS)
    lines = [[row[name] for name in header] for row in rows]
    if fault == "double":
        header[draw.randrange(len(header))] = draw.choice(header)
    if fault == "missing":
        header.remove(draw.choice(["group", "wage", "age"]))
    if fault == "line":
        lines[len(lines) // 2] = draw.choice([lines[0][:-1], [*lines[0], 1], [], header])
    dialect = draw.choice(["excel", "unix"])  # line ends and quotes of either kind
    writer = csv.writer(file, dialect)
    writer.writerows([header, *lines])
    return file.getvalue().encode()


def _parquet(draw: random.Random, rows: list[Row], sound: bool, path: Path) -> None:
    """Writes a file in which one value, or all of a column, is odd, or a column's type is."""
    fault = "none" if sound else draw.choice(["cell", "column", "type"])
    column = draw.choice(["group", "age", "job", "hours", "wage"])
    for row in rows if fault == "column" else [draw.choice(rows)] if fault == "cell" else []:
        row[column] = draw.choice(_PLAIN)
    arrays = {}
    for name in rows[0]:
        try:
            arrays[name] = pa.array([row[name] for row in rows])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            arrays[name] = pa.array([str(row[name]) for row in rows])
    if fault == "type":
        kinds = [pa.float32(), pa.int8(), pa.string(), pa.decimal128(20, 5), pa.binary()]
        try:
            arrays[column] = arrays[column].cast(draw.choice(kinds))
        except pa.ArrowException:
            arrays[column] = arrays[column].dictionary_encode()
    for name, array in arrays.items():  # what was written is what counts
        for row, value in zip(rows, array.to_pylist(), strict=True):
            row[name] = value
    pq.write_table(pa.table(arrays), path)


def _compare(table: Table, rows: list[Row]) -> None:
    members = table.members
    assert len(members.groups) == len(rows)
    labels = [table.group_names[code] for code in members.groups.tolist()]
    for label, row in zip(labels, rows, strict=True):
        assert _label(label) == _label(row["group"]), f"group {label!r} for {row['group']!r}"
    features = [*members.contexts.T, members.rewards]
    for name in ("age", "hours", "wage"):
        values = torch.tensor([_number(row[name]) for row in rows], dtype=torch.float64)
        deviation = values.std(correction=0)
        expected = (values - values.mean()) / (deviation if deviation > 0 else 1.0)
        error = min(float((feature - expected).abs().max()) for feature in features)
        assert error < 1e-6, f"no feature is {name} as it was written"


def _text(value: Any) -> str:
    text = value.decode() if isinstance(value, bytes) else str(value)
    return unicodedata.normalize("NFC", text.strip()).lower()


def _label(value: Any) -> str | float:
    """What two spellings of a label have in common."""
    text = _text(value)
    try:
        return text if text == "nan" else float(text)
    except ValueError:
        return text


def _number(value: Any) -> float:
    text = _text(value)
    number = float({"true": "1", "false": "0"}.get(text, text))
    assert math.isfinite(number), f"accepted, with the number {value!r}"
    return number
