"""Reads tables of every form into typed tables; all other modules read their tables here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from fairbandit.errors import FairbanditError, type_of
from fairbandit.notices import listed, remark
from fairbandit.tables.cells import About, Rows, Typed, about, code_of, number_of, with_about
from fairbandit.tables.files import files_in, named, read_file, read_header
from fairbandit.tables.labels import TRUTH, UNKNOWN, clean
from fairbandit.tables.types import Marks, is_number, typed

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

MISSING = tuple(sorted({"<NA>", "None", *pa_csv.ConvertOptions().null_values}))
"""The texts that are missing cells of a CSV file, as for `pandas.read_csv`; "" is among them."""


def read_table(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
    missing_values: Sequence[Any] | None = None,
    name: str = "the table",
) -> pd.DataFrame:
    """Reads a table, whose columns get their types here and nowhere else.

    The types are whole numbers, float64, truth values, texts, and categories of numbers; missing
    cells are null. The columns of frames and of Parquet files have types already, and their texts
    stay texts. The texts of a CSV file become numbers or truth values if all cells of a column are;
    `01` stays a text, since it may be a code. Floats that are all whole are whole numbers. Columns
    of other types, such as durations, are left out.

    Args:
        source: a CSV file in UTF-8, a Parquet file, or a folder of files of one of these kinds; a
            DataFrame of pandas, whose index is left out, an Arrow table, another object with
            Arrow's PyCapsule interface, such as a DataFrame of Polars, a mapping from names to
            columns, or a list of rows, each a mapping.
        columns: the columns to read, among others that are ignored; None for all with a name.
        separator: the separator of the cells of a CSV file; `tab` for a tab.
        decimal: the decimal mark of numbers that are texts, `.` or `,`.
        thousands: the mark of thousands in a CSV file, `,` or `.`; None if there is none.
        missing_values: the texts and the numbers that are missing cells. None takes the texts of
            `pandas.read_csv`, such as `NA`, in CSV files, and no texts elsewhere. An empty cell of
            a CSV file, null and NaN are always missing.
        name: the name of the table in messages, if it is not a file.

    Returns:
        The table. The index counts the rows, after the name of their file if there are several.

    Raises:
        FairbanditError: the source or an argument is invalid; files of a folder differ.

    >>> read_table([{"job": "01", "pay": 2.0}, {"job": "10", "pay": None}])["pay"].tolist()
    [2, <NA>]
    """
    import pandas as pd

    if decimal not in (".", ",") or thousands not in (None, ".", ",") or decimal == thousands:
        raise FairbanditError(
            "decimal must be a point or a comma, and thousands the other of these marks, or null; "
            f"got {decimal!r} and {thousands!r}"
        )
    missing = tuple(texts_of("missing_values", missing_values))
    marks = Marks(decimal, thousands, missing)
    if not isinstance(source, (str, PathLike)):
        table = _table_of(source, decimal)
        wanted = [own for own in table.column_names if columns is None or own in columns]
        known = About(name, table.column_names, reasons=about(source).reasons)
        return _frame(table.select(wanted), len(table), marks, known, is_csv=False)
    path = Path(source)
    paths = files_in(path) if path.is_dir() else [path]
    if len({file.suffix.lower() for file in paths}) > 1:
        raise FairbanditError(f"{path} mixes CSV and Parquet files; a folder holds one kind")
    is_csv = paths[0].suffix.lower() == ".csv"
    if is_csv:
        marks = marks._replace(missing=(*(MISSING if missing_values is None else [""]), *missing))
    tables, names = dict[str, pa.Table](), list[str]()
    for file in paths:
        names = read_header(file, separator)
        wanted = [own for own in names if columns is None or own in columns]
        tables[str(file)] = read_file(file, wanted, separator)
    table = _joined(tables)
    known = About(str(path), names, separator=separator * is_csv)
    read = _frame(table, sum(map(len, tables.values())), marks, known, is_csv)
    if len(tables) > 1:
        rows = [(file, row) for file, own in tables.items() for row in range(len(own))]
        read.index = pd.MultiIndex.from_tuples(rows, names=["file", "row"])
    return read


def texts_of(name: str, words: Any) -> list[str]:
    """Returns a parameter as a list of texts; None is empty, and numbers become texts."""
    texts = [*words] if isinstance(words, (list, tuple)) else [] if words is None else [words]
    if any(isinstance(text, bool) or not isinstance(text, (str, int, float)) for text in texts):
        raise FairbanditError(f"{name}: expected a list of texts (in quotes, in YAML); got {words}")
    return [*map(str, texts)]


def _frame(table: pa.Table, count: int, marks: Marks, known: About, is_csv: bool) -> pd.DataFrame:
    import pandas as pd

    columns, reasons = dict[str, Any](), {**known.reasons}
    for name, cells in zip(table.column_names, table.columns, strict=True):
        column, reason = typed(cells, marks, f"{known.name}, column {name!r}", is_csv)
        columns |= {} if column is None else {name: column}
        reasons |= {name: reason} if reason else {}
    known = replace(known, decimal=marks.decimal, missing=marks.missing, reasons=reasons)
    return with_about(pd.DataFrame(columns, index=pd.RangeIndex(count)), known)


def _joined(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Returns the rows of all files, whose columns may differ in order, numbers and gaps."""
    (first, table), *others = tables.items()
    for file, other in others:
        if lacking := sorted({*table.column_names} ^ {*other.column_names}):
            names = listed([*map(repr, lacking)])
            raise FairbanditError(f"{first} and {file} differ in the columns {names}")
    parts = {name: {file: own[name] for file, own in tables.items()} for name in table.column_names}
    return pa.table({name: _column(name, own) for name, own in parts.items()})


def _column(name: str, parts: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
    known = {file: own for file, own in parts.items() if own.null_count < len(own)} or parts
    kinds = {own.type: file for file, own in known.items()}
    other, *_, one = sorted([*kinds, *kinds], key=is_number)
    kind = one
    if len(kinds) > 1:  # numbers are joined as they are written, since some types lose digits
        kind = pa.float64() if is_number(other) else pa.string()
        try:
            if is_number(one) != is_number(other):
                raise pa.ArrowTypeError("numbers beside other cells")
            known = {file: own.cast(pa.string()).cast(kind) for file, own in known.items()}
        except pa.ArrowException as error:
            both = f"{one} in {kinds[one]} and {other} in {kinds[other]}"
            raise FairbanditError(f"column {name!r} is of the type {both}") from error
    gaps = {file: pa.chunked_array([pa.nulls(len(own), kind)]) for file, own in parts.items()}
    chunks = [chunk for own in {**gaps, **known}.values() for chunk in own.chunks]
    return pa.chunked_array(chunks, kind)


def _table_of(data: Any, decimal: str) -> pa.Table:
    """Returns a table in memory as an Arrow table; a column of numbers and texts becomes texts."""
    import pandas as pd

    try:
        if isinstance(data, (list, tuple)) and all(isinstance(row, Mapping) for row in data):
            names = dict.fromkeys(name for row in data for name in row)
            data = {name: [row.get(name) for row in data] for name in names}
        elif isinstance(data, pd.DataFrame):
            if twice := data.columns[data.columns.duplicated()].tolist():
                raise FairbanditError(f"the table has more than one column {twice[0]!r}")
            data = {name: own.reset_index(drop=True) for name, own in data.items()}
        if isinstance(data, Mapping):
            indices = [own.index for own in data.values() if hasattr(own, "iloc")]
            if any(not index.equals(indices[0]) for index in indices):
                raise FairbanditError("the columns of the table are Series of different indices")
            data = {str(name): _array(str(name), own, decimal) for name, own in data.items()}
        table = pa.table(data)
        return table.select(named(table.column_names))
    except FairbanditError:
        raise
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError, KeyError) as error:
        raise FairbanditError(
            "expected a DataFrame, an Arrow table or a mapping from names to columns, whose cells "
            f"are numbers or texts; got a {type(data).__name__}: {' '.join(map(str, error.args))}"
        ) from error


def _array(name: str, cells: Any, decimal: str) -> Any:
    """Returns cells as Arrow holds them.

    Intervals, numbers beside texts, and whole numbers beyond 64 bits become texts. Truth values
    beside whole numbers are numbers.
    """
    import pandas as pd

    if isinstance(cells, list):
        cells = pd.Series(cells, dtype=object)
    if not hasattr(cells, "iloc"):
        return cells
    if "nterval" in str(getattr(cells.dtype, "categories", cells).dtype):
        cells = cells.astype(object)
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kinds = {type(cell) for cell in cells.dropna()}
        truth = {bool, np.bool_}
        numbers = {kind for kind in kinds if issubclass(kind, (int, float, np.number, np.bool_))}
        others = {kind for kind in kinds - numbers if kind.__name__ != "Interval"}
        if kinds == numbers and kinds & truth and kinds - truth:
            plain = cells.map(lambda cell: int(cell) if type(cell) in truth else cell)
            return _array(name, plain, decimal)
        if kinds == {int} or (kinds > numbers and all(issubclass(kind, str) for kind in others)):
            texts = cells.map(lambda cell: _text(cell, decimal), na_action="ignore")
            return pa.array(texts, from_pandas=True)
        names = listed(sorted(kind.__name__ for kind in kinds))
        raise FairbanditError(
            f"the table, column {name!r}: cells of {names} have no type in common: {error}"
        ) from error


def _text(cell: Any, decimal: str) -> str:
    text: str = code_of(cell, of_text=True)
    return text.replace(".", decimal) if isinstance(cell, float) else text


_PLAIN = {str, int, float, bool, type(None)}
_SCALARS = {np.float64, np.int64, np.bool_, np.str_}


def read_rows(
    source: Any, names: Sequence[str], groups: Sequence[str], marks: Marks, where: str
) -> Typed:
    """Returns columns of raw rows as a typed table; see `read_table`.

    Plain cells of lists, small frames and mappings are read without pandas and Arrow, with the same
    rules. A list of rows may lack the `groups`, with a notice: the group is unknown.
    """
    if isinstance(source, (str, PathLike)):
        expected = "a DataFrame, an Arrow table or rows"
        raise FairbanditError(f"{where}: expected {expected}, got {type_of(source)}")
    columns, every = dict[str, Any](), list[Any]()
    of_lists = isinstance(source, Mapping) and {*map(type, source.values())} == {list}
    if isinstance(source, (list, tuple)) and all(isinstance(row, Mapping) for row in source):
        every = [*dict.fromkeys(chain.from_iterable(source))]
        columns = {name: [row.get(name) for row in source] for name in names if name in every}
        if absent := [name for name in groups if name not in columns and source]:
            remark(f"{where}: no row has {listed([*map(repr, absent)])}: the group is {UNKNOWN}")
            columns |= {name: [None] * len(source) for name in absent}
    elif of_lists or (hasattr(source, "itertuples") and source.columns.is_unique):
        every = [*source]
        columns = {name: source[name] for name in names if name in source}
    if columns:
        known = About(where, [*map(str, every)], marks.decimal, missing=marks.missing)
        with suppress(TypeError, UnicodeEncodeError):  # Arrow knows more types
            plain = {name: _plain(own, marks) for name, own in columns.items()}
            if len({*map(len, plain.values())}) == 1:
                return Rows(plain, known)
    missing, decimal = marks.missing, marks.decimal
    return read_table(columns or source, missing_values=missing, decimal=decimal, name=where)


def _plain(column: Any, marks: Marks) -> list[Any]:
    """Returns the cells of a column; a TypeError leaves it to Arrow."""
    if hasattr(column, "iloc"):
        if column.dtype == np.float32:
            raise TypeError("single precision is read as it was written")
        column = column.tolist()
    kinds = {*map(type, column)}
    if not kinds <= _PLAIN | _SCALARS:
        raise TypeError("cells of other types")
    if not kinds <= _PLAIN:
        column = [cell.item() if type(cell) in _SCALARS else cell for cell in column]
    numbers, texts, read = {*marks.numbers}, {*marks.texts}, list[Any]()
    for cell in column:
        if type(cell) is str:
            cell = clean(cell)
            cell.encode()  # half of a surrogate pair is an error
            cell = cell.lower() if cell.lower() in TRUTH else cell
            gone = cell in texts or (numbers and number_of(cell, marks.decimal) in numbers)
        else:
            gone = cell is None or cell != cell or (type(cell) is not bool and cell in numbers)
        read.append(None if gone else cell)
    return read
