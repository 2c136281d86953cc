"""Reads raw rows column by column, with the rules of `read_table` and without pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np

from fairbandit.errors import FairbanditError, type_of
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.cells import About, Rows, Typed
from fairbandit.tables.labels import TRUTH, UNKNOWN, clean, is_missing
from fairbandit.tables.reading import read_table
from fairbandit.tables.types import Marks

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

    Columns other than `names` are ignored. A list of rows may lack the `groups`, with a notice:
    the group is unknown. For `missing` and `decimal`, see `read_table`.
    """
    if isinstance(source, (str, PathLike)):
        expected = "a DataFrame, an Arrow table or rows"
        raise FairbanditError(f"{where}: expected {expected}, got {type_of(source)}")
    columns, every, count = dict[str, list[Any]](), list[Any](), 0
    if isinstance(source, (list, tuple)) and all(isinstance(row, Mapping) for row in source):
        every, count = [*dict.fromkeys(chain.from_iterable(source))], len(source)
        known = [name for name in names if any(name in row for row in source)]
        columns = {name: [row.get(name) for row in source] for name in known}
        if absent := [name for name in groups if name not in known and source]:
            remark(f"{where}: no row has {listed([*map(repr, absent)])}: the group is {UNKNOWN}")
            columns |= {name: [None] * count for name in absent}
    elif hasattr(source, "iloc") and source.columns.is_unique:
        every, count = [*source.columns], len(source)
        series = {name: source[name] for name in names if name in source}
        single = [name for name, own in series.items() if own.dtype == np.float32]
        columns = {name: own.tolist() for name, own in series.items()}
        columns |= {name: [*series[name].to_numpy()] for name in single}  # read as it was written
    elif isinstance(source, Mapping) and {type(own) for own in source.values()} == {list}:
        every, lengths = [*source], {len(own) for own in source.values()}
        columns = {name: source[name] for name in names if name in source and len(lengths) == 1}
        count = max(lengths)
    if not columns:
        return read_table(source, missing_values=missing, decimal=decimal, name=where)
    read, refused = dict[str, list[Any]](), dict[str, str]()
    marks = Marks(decimal, None, tuple(missing))
    for name, own in columns.items():
        try:
            read[name] = _plain(own, marks)
        except (TypeError, UnicodeEncodeError):  # Arrow knows more types
            table = read_table({name: own}, missing_values=missing, decimal=decimal, name=where)
            refused |= cells.about(table).refused
            if name in table:
                read[name] = [None if is_missing(cell) else cell for cell in table[name]]
    about = About(where, [*map(str, every)], decimal, missing=missing, refused=refused)
    return Rows(read, about, count)


def _plain(column: list[Any], marks: Marks) -> list[Any]:
    kinds = {*map(type, column)}
    if not kinds <= _PLAIN:
        if not kinds <= _PLAIN | _SCALARS:
            raise TypeError("cells of other types")
        column = [cell.item() if type(cell) in _SCALARS else cell for cell in column]
    if kinds <= {int, bool} and not marks.missing:
        return column
    numbers, texts = {*marks.numbers}, {*marks.texts}
    read = list[Any]()
    for cell in column:
        if type(cell) is str:
            text = clean(cell)
            if not text.isascii():
                text.encode()
            text = text.lower() if text.lower() in TRUTH else text
            gone = text in texts
            gone = gone or bool(numbers and cells.number_of(text, marks.decimal) in numbers)
            read.append(None if gone else text)
        else:
            gone = cell is None or cell != cell or (type(cell) is not bool and cell in numbers)
            read.append(None if gone else cell)
    return read
