"""Hostile tables in CSV and Parquet, compared with an independent reading of what was written.

Each input is a small table with at most one fault. A table without one must be accepted. What is
accepted must hold exactly what an independent reading of the file says: Python's csv module and
fractions for CSV, the values that were written for Parquet.
"""

import csv
import io
import math
import random
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fairbandit import build
from fairbandit.environments import Table
from fairbandit.errors import FairbanditError
from tests.fuzz.harness import Fault, FoundError, Subject

CELLS = (
    *("", " ", "NA", "nan", "NaN", "null", "NULL", "None", "#N/A", "N/A", "n/a", "-", "?", "."),
    *("true", "false", "True", "inf", "-Infinity", "1e400", "1e308", "-1e308", "1e200", "1e-170"),
    *(
        "1e-320",
        "5e-324",
        "0x10",
        "1_000",
        "1,5",
        "１２",
        "−3",
        " 3",
        "3 ",
        "3\t",
        "+3",
        "03",
        "3.",
    ),
    *(".5", "1e5", "1E+05", "1e", "e5", "--1", "1.2.3", "1 2", "9007199254740993", "1" * 30),
    *(
        "-9007199254740993",
        "18446744073709551616",
        "0.1000000000000000055",
        "3.0",
        "-0",
        "1d",
        "1f",
    ),
    *("[red]", "[/x]", "a,b", 'a"b', "a\nb", "a;b", "ü", "\x00", "\u202e", "x" * 500, "=1+1", "1%"),
)
"""Texts of which some are numbers and some are labels."""

VALUES: tuple[Any, ...] = (
    *(None, math.nan, math.inf, -math.inf, 1e308, 1e200, 1e-170, 5e-324, 0.1, 2**53 + 1, -(2**62)),
    *(2**63 - 1, True, False, Decimal("1.5"), Decimal("0.1"), Decimal("12345678901234567890.5")),
    *("1", "x", "NA", "", b"raw", [1, 2], {"a": 1}, 3.0, 7),
)
"""What a Parquet column may hold."""

COLUMNS = {"age": None, "job": ["x", "y"], "hours": None}

TOLERANCE = 1e-9
"""How far a standardised number may be from the exact one; rounding is about 1e-14."""


@dataclass(frozen=True)
class Read:
    """An independent reading: a row's group and its numbers, exactly."""

    groups: list[str]
    numbers: dict[str, list[Fraction]]


class Tables(Subject):
    """The `table` environment."""

    name = "tables"
    share = 0.25
    limit = 10.0

    def attempt(self, number: int) -> None:
        """A table with at most one fault, and what became of it."""
        draw = self.source(number)
        rows = _rows(draw)
        sound = draw.random() < 0.1
        if draw.random() < 0.6:
            path = self.folder / f"{number}.csv"
            content, whole = _csv(draw, rows, sound)
            path.write_bytes(content)
        else:
            path = self.folder / f"{number}.parquet"
            whole = _parquet(draw, rows, sound, path)
        try:
            table = build(
                {
                    "name": "table",
                    "path": str(path),
                    "group": "group",
                    "reward": "wage",
                    "columns": COLUMNS,
                }
            )
        except FairbanditError as error:
            if sound:
                raise FoundError(Fault.value, f"a sound table is refused: {error}") from error
            if len(str(error)) > 2000:
                raise FoundError(Fault.value, f"a message of {len(str(error))} letters") from error
            raise
        finally:
            path.unlink()
        assert isinstance(table, Table)
        if path.suffix == ".csv":
            read = _read_csv(content)
        elif whole:
            read = _read_rows(rows)
        else:
            raise FoundError(Fault.value, "a file that was cut short is accepted")
        if read:
            _compare(table, read)


Row = dict[str, Any]


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


def _csv(draw: random.Random, rows: list[Row], sound: bool) -> tuple[bytes, bool]:
    """A file's bytes, and whether it is whole."""
    kind = "none" if sound else draw.choice(["cell"] * 3 + ["large", "cut", "byte", "form"])
    header = list(rows[0])
    if kind == "cell":
        draw.choice(rows)[draw.choice(header)] = draw.choice(CELLS)
    if kind == "large":
        offset = draw.choice(["1e30", "1e16", "1e12", "1e100", "1e300"])
        for row in rows:
            row["wage"] = str(Decimal(offset) + Decimal(str(row["wage"])))
    file = io.StringIO(newline="")
    end = draw.choice(["\n", "\r\n"])
    quoted = draw.random() < 0.5
    writer = csv.writer(
        file, lineterminator=end, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    )
    if kind == "form":
        form = draw.choice(["double", "missing", "ragged", "wide", "blank", "empty", "again"])
        if form == "double":
            header.append(draw.choice(header))
        elif form == "missing":
            header.remove(draw.choice(["group", "wage", "age"]))
        writer.writerow(header)
        for at, row in enumerate(rows):
            cells = [row[name] for name in header]
            if at == len(rows) // 2:
                if form == "ragged":
                    cells.pop()
                if form == "wide":
                    cells.append(1)
                if form == "blank":
                    file.write(end)
                if form == "again":
                    writer.writerow(header)
            if form != "empty":
                writer.writerow(cells)
    else:
        writer.writerow(header)
        writer.writerows([row.values() for row in rows])
    content = file.getvalue().encode()
    if kind == "byte":
        return _spoiled(draw, content), True
    if kind == "cut":
        at = draw.randrange(1, len(content))
        ended = content[:at].endswith((b"\r", b"\n")) and _even_quotes(content[:at])
        return content[:at], ended
    return content, True


def _even_quotes(content: bytes) -> bool:
    return content.count(b'"') % 2 == 0


def _spoiled(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content))
    how = draw.choice(["flip", "latin", "nul", "bom", "drop", "insert"])
    if how == "flip":
        return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
    if how == "latin":
        return content[:at] + b"\xe9" + content[at + 1 :]
    if how == "nul":
        return content[:at] + b"\x00" + content[at + 1 :]
    if how == "bom":
        return b"\xef\xbb\xbf" + content
    if how == "drop":
        return content[:at] + content[at + 1 :]
    return content[:at] + draw.choice([b'"', b",", b"\n", b"\r", b" ", b"-", b"9"]) + content[at:]


def _parquet(draw: random.Random, rows: list[Row], sound: bool, path: Path) -> bool:
    """Writes the file, and says whether it is whole."""
    kind = "none" if sound else draw.choice(["cell", "column", "cut", "type", "large"])
    column = draw.choice(["group", "age", "job", "hours", "wage"])
    if kind == "cell":
        draw.choice(rows)[column] = draw.choice(VALUES)
    if kind == "column":
        value = draw.choice(VALUES)
        for row in rows:
            row[column] = value
    if kind == "large":
        for row in rows:
            row["wage"] = 1e30 + row["wage"]
    arrays = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            texts = [None if value is None else str(value) for value in values]
            for row, text in zip(rows, texts, strict=True):
                row[name] = text
            arrays[name] = pa.array(texts)
    if kind == "type":
        types = [pa.float32(), pa.float16(), pa.int8(), pa.string(), pa.decimal128(20, 5)]
        types += [pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()]
        try:
            array = arrays[column].cast(draw.choice(types))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            array = arrays[column].dictionary_encode()
        arrays[column] = array
    for name, array in arrays.items():  # what was written is what counts
        for row, value in zip(rows, array.to_pylist(), strict=True):
            row[name] = value
    pq.write_table(pa.table(arrays), path)
    if kind == "cut":
        content = path.read_bytes()
        path.write_bytes(content[: draw.randrange(len(content))])
        return False
    return True


_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_MISSING = {"", "na", "nan", "null", "none", "#n/a", "n/a"}


def _read_csv(content: bytes) -> Read | None:
    """What the standard library reads; None of a file on which readers may differ."""
    try:
        # bytes that are no UTF-8 may stand in a column that is not asked for
        text = content.decode("utf-8-sig", errors="replace")
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return None
    header, *cells = [line for line in lines if line]
    if len(set(header)) < len(header) or any(len(line) != len(header) for line in cells):
        raise FoundError(Fault.value, "accepted, with rows of other lengths than the header")
    return _read_rows([dict(zip(header, line, strict=True)) for line in cells])


def _read_rows(rows: list[Row]) -> Read:
    groups = [_label(row["group"]) for row in rows]
    numbers = {name: [_number(row[name]) for row in rows] for name in ("age", "hours", "wage")}
    if any(_label(row["job"]).strip() not in ("x", "y") for row in rows):
        raise FoundError(Fault.value, "accepted, with a code that was not declared")
    return Read(groups, numbers)


def _label(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise FoundError(Fault.value, f"accepted, with the group {value!r}")
    if isinstance(value, bytes):
        value = value.decode()
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text.strip().lower() in _MISSING:
        raise FoundError(Fault.value, f"accepted, with the group {value!r}")
    return text.strip()


def _number(value: Any) -> Fraction:
    """The double that is nearest to the number of a cell."""
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, bool):
        return Fraction(int(value))
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in ("true", "false"):
            return Fraction(int(text.lower() == "true"))
        if not _NUMBER.fullmatch(text):
            raise FoundError(Fault.value, f"accepted, with the number {value!r}")
        value = Fraction(text) if "e" not in text.lower() else Fraction(Decimal(text))
    if not isinstance(value, (int, float, Decimal, Fraction)):
        raise FoundError(Fault.value, f"accepted, with the number {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise FoundError(Fault.value, f"accepted, with the number {value!r}")
    return Fraction(float(Fraction(value)))


def _compare(table: Table, read: Read) -> None:
    members = table.members
    if len(read.groups) != len(members.groups):
        raise FoundError(Fault.value, f"{len(members.groups)} rows for {len(read.groups)}")
    labels = [table.group_names[code] for code in members.groups.tolist()]
    for label, text in zip(labels, read.groups, strict=True):
        if label != text and not _same_label(label, text):
            raise FoundError(Fault.value, f"group {label!r} for {text!r}")
    held = {"age": members.contexts[:, 0], "hours": members.contexts[:, 3], "wage": members.rewards}
    for name, values in held.items():
        exact = torch.tensor(_standardised(read.numbers[name]), dtype=torch.float64)
        error = float((values - exact).abs().max())
        if not error <= TOLERANCE * max(1.0, float(exact.abs().max())):
            raise FoundError(
                Fault.value, f"column {name} is off by {error:g} after standardisation"
            )


def _same_label(label: str, text: str) -> bool:
    """Whether a label says the same: whole numbers lose their decimals, truth values their case."""
    if label in ("true", "false"):
        return label == text.lower()
    try:
        return Fraction(label) == Fraction(text)
    except ValueError:
        return False


def _standardised(values: list[Fraction]) -> list[float]:
    """(v − mean)/standard deviation with divisor n − 1 or n, exactly but for the last root."""
    mean = sum(values, Fraction(0)) / len(values)
    squares = sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)
    if squares == 0:
        return [0.0] * len(values)
    # a root of a fraction of any size, by way of a square number of bits
    shift = (squares.numerator.bit_length() - squares.denominator.bit_length()) // 2
    root = Fraction(math.sqrt(squares / Fraction(4) ** shift)) * Fraction(2) ** shift
    return [float((value - mean) / root) for value in values]
