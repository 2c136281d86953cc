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
from fairbandit.tables.types import Marks, UntypedError, is_number, typed

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

MISSING = tuple(sorted({"<NA>", "None", *pa_csv.ConvertOptions().null_values}))
"""The texts that are missing cells of a CSV file, as for `pandas.read_csv`; "" is among them."""

OTHER = "neither numbers nor texts that recur"
"""The reason why cells without a type are left out."""


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
    of other types, such as durations, are left out; a message gives the reason where one is needed.

    Args:
        source: a CSV file in UTF-8, a Parquet file, or a folder of files of one of these kinds; a
            DataFrame of pandas, whose index is left out, an Arrow table, another object with
            Arrow's PyCapsule interface, such as a DataFrame of Polars, a mapping from names to
            columns, or a list of rows, each a mapping.
        columns: the columns to read, among others that are ignored; None for all with a name.
        separator: the separator of the cells of a CSV file; `tab` for a tab.
        decimal: the decimal mark of numbers that are texts, `.` or `,`.
        thousands: the mark of thousands in a CSV file, `,` or `.`; None if there is none.
        missing_values: the texts that are missing cells, and the numbers. None: in a CSV file the
            texts of `pandas.read_csv`, such as `NA`, and nothing elsewhere. An empty cell of a CSV
            file, null and NaN are always missing.
        name: the name in messages of a table that is no file.

    Returns:
        The table. The index counts the rows, after the name of their file if there are several.

    Raises:
        FairbanditError: the source or an argument is invalid; files of a folder differ.

    >>> read_table([{"job": "01", "pay": 2.0}, {"job": "10", "pay": None}])["pay"].tolist()
    [2, <NA>]
    """
    import pandas as pd

    for key, mark in (("decimal", decimal), ("thousands", thousands)):
        if mark not in (".", ",") and (mark is not None or key == "decimal"):
            raise FairbanditError(f"{key} must be a point or a comma; got {mark!r}")
    if decimal == thousands:
        raise FairbanditError(f"decimal and thousands are both {decimal!r}")
    missing = tuple(texts_of("missing_values", missing_values))
    marks = Marks(decimal, thousands, missing)
    if not isinstance(source, (str, PathLike)):
        table, before = table_of(source, decimal), about(source)
        wanted = [own for own in table.column_names if columns is None or own in columns]
        doubts = {own: why for own, why in before.doubts.items() if own in wanted}
        known = About(name, table.column_names, refused=before.refused, doubts=doubts)
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


def texts_of(name: str, given: Any) -> list[str]:
    """Returns a parameter as a list of texts; None is empty, and numbers become texts."""
    texts = [*given] if isinstance(given, (list, tuple)) else [] if given is None else [given]
    if any(isinstance(text, bool) or not isinstance(text, (str, int, float)) for text in texts):
        raise FairbanditError(f"{name}: expected a list of texts (in quotes, in YAML); got {given}")
    return [*map(str, texts)]


def _frame(table: pa.Table, count: int, marks: Marks, known: About, is_csv: bool) -> pd.DataFrame:
    import pandas as pd

    columns, refused, doubts = dict[str, Any](), {**known.refused}, {**known.doubts}
    for column, cells in zip(table.column_names, table.columns, strict=True):
        try:
            where = f"{known.name}, column {column!r}"
            columns[column], doubt = typed(cells, marks, where, is_csv)
            doubts |= {column: doubt} if doubt else {}
        except UntypedError as error:
            refused[column] = str(error)
        except pa.ArrowException:  # nested values, or bytes
            refused[column] = f"cells of the type {cells.type} are neither numbers nor texts"
    frame = pd.DataFrame(columns, index=pd.RangeIndex(count))
    marked = replace(known, decimal=marks.decimal, missing=marks.missing)
    return with_about(frame, replace(marked, refused=refused, doubts=doubts))


def _joined(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Returns the rows of all files, whose columns may differ in order, numbers and gaps."""
    (first, table), *others = tables.items()
    for file, other in others:
        if lacking := sorted({*table.column_names} ^ {*other.column_names}):
            names = listed([*map(repr, lacking)])
            raise FairbanditError(f"{first} and {file} differ in the columns {names}")
    return pa.table({name: _column(tables, name) for name in table.column_names})


def _column(tables: Mapping[str, pa.Table], name: str) -> pa.ChunkedArray:
    parts = {file: own[name] for file, own in tables.items()}
    known = {file: own for file, own in parts.items() if own.null_count < len(own)} or parts
    kinds = {own.type: file for file, own in known.items()}
    other, *_, one = sorted([*kinds, *kinds], key=is_number)
    kind = one
    if len(kinds) > 1:  # numbers are joined as they are written, since some types lose digits
        kind = pa.float64() if is_number(other) else pa.string()
        try:
            if is_number(one) != is_number(other):
                raise TypeError("numbers beside other cells")
            known = {file: own.cast(pa.string()).cast(kind) for file, own in known.items()}
        except (TypeError, pa.ArrowException) as error:
            raise FairbanditError(
                f"column {name!r} is of the type {one} in {kinds[one]} and {other} in "
                f"{kinds[other]}"
            ) from error
    chunks = list[pa.Array]()
    for file, own in parts.items():
        chunks += known[file].chunks if file in known else [pa.nulls(len(own), kind)]
    return pa.chunked_array(chunks, kind)


def table_of(data: Any, decimal: str = ".") -> pa.Table:
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
        truth, numbers = {bool, np.bool_}, (bool, int, float, np.number, np.bool_)
        numeric = {kind for kind in kinds if issubclass(kind, numbers)}
        if kinds == numeric and kinds & truth and kinds - truth:
            plain = cells.map(lambda cell: int(cell) if type(cell) in truth else cell)
            return _array(name, plain, decimal)
        if kinds == {int} or (kinds > numeric and all(map(_is_text, kinds - numeric))):
            texts = cells.map(lambda cell: _text(cell, decimal), na_action="ignore")
            return pa.array(texts, from_pandas=True)
        names = listed(sorted(kind.__name__ for kind in kinds))
        raise FairbanditError(
            f"the table, column {name!r}: cells of {names} have no type in common: {error}"
        ) from error


def _is_text(kind: type) -> bool:
    return issubclass(kind, str) or kind.__name__ == "Interval"


def _text(cell: Any, decimal: str) -> str:
    text: str = code_of(cell, of_text=True)
    return text.replace(".", decimal) if isinstance(cell, float) else text


_PLAIN = {str, int, float, bool, type(None)}
_SCALARS = {np.float64, np.int64, np.bool_, np.str_}


def read_rows(
    source: Any,
    names: Sequence[str],
    groups: Sequence[str],
    missing: Sequence[str],
    decimal: str,
    where: str,
) -> Typed:
    """Returns columns of raw rows as a typed table.

    Plain cells of lists, small frames and mappings are read without pandas and Arrow, with the same
    rules. Columns other than `names` are ignored. A list of rows may lack the `groups`, with a
    notice: the group is unknown. For `missing` and `decimal`, see `read_table`.
    """
    if isinstance(source, (str, PathLike)):
        expected = "a DataFrame, an Arrow table or rows"
        raise FairbanditError(f"{where}: expected {expected}, got {type_of(source)}")
    columns, every, count = dict[str, Any](), list[Any](), 0
    if isinstance(source, (list, tuple)) and all(isinstance(row, Mapping) for row in source):
        every, count = [*dict.fromkeys(chain.from_iterable(source))], len(source)
        columns = {name: [row.get(name) for row in source] for name in names if name in every}
        if absent := [name for name in groups if name not in columns and source]:
            remark(f"{where}: no row has {listed([*map(repr, absent)])}: the group is {UNKNOWN}")
            columns |= {name: [None] * count for name in absent}
    elif hasattr(source, "iloc") and source.columns.is_unique:
        every, count = [*source.columns], len(source)
        columns = {name: source[name] for name in names if name in source}
    elif isinstance(source, Mapping) and {type(own) for own in source.values()} == {list}:
        every, lengths = [*source], {len(own) for own in source.values()}
        columns = {name: source[name] for name in names if name in source and len(lengths) == 1}
        count = max(lengths)
    if columns:
        marks = Marks(decimal, None, tuple(missing))
        known = About(where, [*map(str, every)], decimal, missing=missing)
        with suppress(TypeError, UnicodeEncodeError):  # Arrow knows more types
            return Rows({name: _plain(own, marks) for name, own in columns.items()}, known, count)
    return read_table(columns or source, missing_values=missing, decimal=decimal, name=where)


def _plain(column: Any, marks: Marks) -> list[Any]:
    if hasattr(column, "iloc"):
        if column.dtype == np.float32:
            raise TypeError("single precision is read as it was written")
        column = column.tolist()
    kinds = {*map(type, column)}
    if not kinds <= _PLAIN:
        if not kinds <= _PLAIN | _SCALARS:
            raise TypeError("cells of other types")
        column = [cell.item() if type(cell) in _SCALARS else cell for cell in column]
    if kinds <= {int, bool} and not marks.missing:
        return [*column]
    numbers, texts, read = {*marks.numbers}, {*marks.texts}, list[Any]()
    for cell in column:
        if type(cell) is str:
            text = clean(cell)
            if not text.isascii():
                text.encode()
            text = text.lower() if text.lower() in TRUTH else text
            gone = text in texts
            gone = gone or bool(numbers and number_of(text, marks.decimal) in numbers)
            read.append(None if gone else text)
        else:
            gone = cell is None or cell != cell or (type(cell) is not bool and cell in numbers)
            read.append(None if gone else cell)
    return read
