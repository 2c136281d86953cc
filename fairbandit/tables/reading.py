"""Reads CSV and Parquet tables, and tables in memory, into typed columns."""

from __future__ import annotations

import csv
import io
import re
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.files.files import open_regular
from fairbandit.notices import listed
from fairbandit.tables.source import FILES, Source, source_of, typed_frame, with_gaps

MEMORY = "memory:"
"""The prefix of the path of a table in memory."""

_INDEX = re.compile(r"__index_level_[0-9]+__")  # the index of a table that pandas wrote
_in_memory: weakref.WeakValueDictionary[str, Source] = weakref.WeakValueDictionary()


def read_table(
    path: str | Path,
    columns: Collection[str],
    every: bool = False,
    separator: str = ",",
    decimal: str = ".",
    missing_values: Sequence[str] | None = None,
) -> Source:
    """Reads columns of a table into memory.

    Args:
        path: a file that ends in .csv (in UTF-8) or .parquet, or a path from `keep`.
        columns: the names of columns that the table must have.
        every: reads all columns that have a name.
        separator, decimal, missing_values: see `Table`.
    """
    source = _in_memory.get(str(path))
    if source is None and str(path).startswith(MEMORY):
        raise FairbanditError("this table in memory is gone; keep the environment made of it")
    if source is None:
        names = read_header(Path(path), separator)
        asked = [name for name in names if every or name in columns]
        batches = read_batches(Path(path), asked, separator)
        frame, refused = typed_frame(pa.concat_tables(batches))
        source = Source(str(path), names, frame, refused=refused)
    source.need(columns, f"with {separator=} " if source.name.lower().endswith(".csv") else "")
    return with_gaps(replace(source, decimal=decimal), missing_values)


def read_header(path: Path, separator: str) -> list[str]:
    """Returns the names of a file's columns; an index of pandas has none."""
    if path.suffix.lower() not in FILES or not path.exists():
        tables = [file.name for file in path.parent.glob("*") if file.suffix.lower() in FILES]
        problem = f"there is no file {path} that ends in .csv or .parquet, unpacked"
        raise FairbanditError(problem + did_you_mean(path.name, tables))
    mark = "\t" if separator == "tab" else separator
    if len(mark) != 1 or mark in '"\r\n':
        raise FairbanditError(f"'separator=;' takes one character, or tab; got {separator!r}")
    with _readable(path, separator) as file:
        if path.suffix.lower() == ".parquet":
            names = pq.read_schema(file).names
        else:
            lines = io.TextIOWrapper(file, "utf-8-sig", newline="")
            names = next(filter(None, csv.reader(lines, delimiter=mark)), [])
    marks = [other for other in ";,\t|" if len(names) == 1 and other in names[0]]
    if marks and mark not in marks:
        right = marks[0].replace("\t", "tab")
        raise FairbanditError(
            f"{path} has one column {names[0]!r}; expected separator={right!r}, on the command "
            f"line 'separator={right}', and 'environment.separator={right}' for a run"
        )
    return _named(names)


def _named(names: Iterable[str]) -> list[str]:
    return [name for name in names if name and not _INDEX.fullmatch(name)]


def read_batches(path: Path, names: Sequence[str], separator: str) -> Iterator[pa.Table]:
    """Yields an empty table of some columns of a file, then its rows in pieces."""
    if twice := [repr(name) for name, times in Counter(names).items() if times > 1]:
        raise FairbanditError(f"{path} has more than one column {listed(twice)}; rename them")
    mark = "\t" if separator == "tab" else separator
    with _readable(path, separator) as file:
        if path.suffix.lower() == ".csv":  # as text, since `01` may be a code
            _check_quotes(file, mark)
            types = dict.fromkeys(names, pa.string())
            read = pa_csv.ReadOptions(use_threads=False, block_size=1 << 24)
            parse = pa_csv.ParseOptions(delimiter=mark, newlines_in_values=True)
            convert = pa_csv.ConvertOptions(include_columns=types, column_types=types)
            blocks = pa_csv.open_csv(file, read, parse, convert)
            schema = blocks.schema
        else:  # without read-ahead, whose threads could outlive the process
            whole = pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
            blocks, schema = whole.iter_batches(1 << 20, use_threads=False), whole.schema_arrow
        yield schema.empty_table().select(names)
        for block in blocks:
            batch = pa.table(block).select(names)
            batch.validate(full=True)
            yield batch


def _check_quotes(file: BinaryIO, mark: str) -> None:
    """Raises a `csv.Error` for a quotation mark that is not closed where its cell ends.

    Arrow would take all that follows for the content of the cell.
    """
    quoted = any(b'"' in block for block in iter(lambda: file.read(1 << 20), b""))
    file.seek(0)
    if not quoted:
        return
    lines = io.TextIOWrapper(file, "utf-8-sig", newline="")
    rows, first = csv.reader(lines, delimiter=mark, strict=True), 1
    try:
        for _ in rows:
            first = rows.line_num + 1
    except csv.Error as error:
        problem = f"the row that begins in line {first} has a quotation mark that is not closed"
        raise csv.Error(f"{problem} at the end of its cell ({error})") from error
    lines.detach()
    file.seek(0)


@contextmanager
def _readable(path: Path, separator: str) -> Iterator[BinaryIO]:
    """Opens the file of a table; errors of the block say which kind of file is expected."""
    try:
        with open_regular(path) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeError, csv.Error) as error:
        reason = str(error).partition("\n")[0][:200]
        raise FairbanditError(
            f"{path} is not a readable table; it may be truncated, and a CSV file must be in UTF-8 "
            f"with {separator=}: {reason}"
        ) from error


def table_of(data: Any) -> pa.Table:
    """Returns the data of `Table.from_data`, or a list of rows as mappings, as an Arrow table.

    Columns of numbers and texts become texts, as in a CSV file.
    """
    import pandas as pd

    try:
        if isinstance(data, (list, tuple)) and all(isinstance(row, Mapping) for row in data):
            data = pd.DataFrame(data, dtype=object)  # whole numbers beside gaps stay whole
        series = data.values() if isinstance(data, Mapping) else ()
        indices = [own.index for own in series if hasattr(own, "iloc")]
        if any(not index.equals(indices[0]) for index in indices):
            raise FairbanditError("the columns of the table are Series of different indices")
        if isinstance(data, Mapping) and any(
            isinstance(own, list) and _mixed(own) for own in data.values()
        ):
            data = pd.DataFrame(data)
        if isinstance(data, pd.DataFrame):  # Arrow cannot convert some columns to texts
            cells = {name: getattr(own.dtype, "categories", own) for name, own in data.items()}
            mixed = [name for name, values in cells.items() if _mixed(values)]
            data = data.astype(dict.fromkeys(mixed, object))
            data[mixed] = data[mixed].map(str, na_action="ignore")
        table = pa.table(data.reset_index(drop=True) if hasattr(data, "reset_index") else data)
        return table.select(_named(table.column_names))
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError, KeyError) as error:
        raise FairbanditError(
            "expected a DataFrame, an Arrow table or a mapping from names to columns, whose cells "
            f"are numbers or texts; got a {type(data).__name__}: {' '.join(map(str, error.args))}"
        ) from error


def _mixed(values: Any) -> bool:
    """Whether a column holds intervals of `pd.cut`, or both numbers and texts."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(values)
    if kind == "integer" and str(getattr(values, "dtype", "object")) == "object":
        return any(abs(cell) >= 2**63 for cell in pd.Series(values).dropna())
    if kind not in ("mixed", "mixed-integer"):
        return kind == "interval"
    cells = pd.Series(values).dropna()
    return all(isinstance(cell, (str, int, float, np.number)) for cell in cells)


def keep(data: Any) -> tuple[str, Source]:
    """Returns a path, a hash, by which `read_table` finds a table while its `Source` lives."""
    from pandas.util import hash_pandas_object

    source = source_of(table := table_of(data))
    contents = hash_pandas_object(source.frame, index=False).to_numpy().tobytes()
    path = MEMORY + sha256(repr(table.column_names).encode() + contents).hexdigest()
    return path, _in_memory.setdefault(path, source)
