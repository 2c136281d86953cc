"""The cells of a typed table, which `read_table` returns: numbers, labels, gaps and places.

- A *number* is at most 1e100 in magnitude; `true` is 1 and `false` is 0.
- A *label* names a group; `fairbandit.tables.labels` says which spellings are one label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.notices import listed
from fairbandit.tables.labels import JOINED, UNKNOWN, group_label, normal, words_of
from fairbandit.tables.types import EXACT, as_numbers, number_pattern

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

LARGEST = 1e100
"""The largest magnitude of a number; deviations of larger ones overflow, which makes features 0."""

FILES = (".csv", ".parquet")
"""How the names of tables in files end."""

_KEY = "fairbandit"


@dataclass(frozen=True)
class About:
    """Facts about a typed table beside its cells, for messages.

    Attributes:
        name: the name of the table, such as its path.
        columns: the names of all columns, read or not.
        decimal: the decimal mark of numbers that are texts.
        unit: the word for a row.
        missing: the texts that are missing cells.
        separator: the separator of a CSV file; "" for another table.
        refused: the reason why a column has no type, by name.
        doubts: the reason why a column of texts is no column of numbers, by name.
    """

    name: str = "the table"
    columns: Sequence[str] = ()
    decimal: str = "."
    unit: str = "row"
    missing: Sequence[str] = ()
    separator: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)


def with_about(frame: pd.DataFrame, about: About) -> pd.DataFrame:
    """Returns a typed table, in which the index counts the rows, after the name of their file."""
    frame.attrs[_KEY] = about
    return frame


def about(table: pd.DataFrame) -> About:
    """Returns the facts about a table; pandas passes them on to parts of the table."""
    found = table.attrs.get(_KEY)
    return found if isinstance(found, About) else About(columns=[*map(str, table.columns)])


def name_of(table: pd.DataFrame) -> str:
    """Returns the name of a table in messages."""
    return about(table).name


def need(table: pd.DataFrame, columns: Iterable[str], where: str = "") -> None:
    """Raises an error that names the columns which the table lacks, if any."""
    known = about(table)
    if absent := [name for name in dict.fromkeys(columns) if name not in table]:
        for name in absent:
            if name in known.refused:
                raise FairbanditError(f"{known.name}, column {name!r}: {known.refused[name]}")
        lacking = [f"{name!r}{_guess(name, known.columns)}" for name in absent]
        where = f"with separator={known.separator!r} {where}" if known.separator else where
        raise FairbanditError(
            f"{known.name} has no column {listed(lacking)} of numbers or texts; {where}it has "
            f"{listed([*map(repr, known.columns)])}"
        )


def _guess(name: str, columns: Sequence[str]) -> str:
    """Returns a guess for the message of an unknown column; several are a list."""
    several = "," in name and {*name.split(",")} <= {*columns}
    return f" (did you mean [{name}]?)" if several else did_you_mean(name, columns)


def require(table: pd.DataFrame, column: str, valid: NDArray[np.bool_], expected: str) -> None:
    """Raises an error that names the first invalid cell of a column, if any."""
    if not valid.all():
        at = int(valid.argmin())
        cell = repr(str(table[column].iat[at]))
        got = "a missing cell" if gaps(table, column)[at] else cell
        raise FairbanditError(f"{place(table, column, at)}: expected {expected}; got {got}")


def place(table: pd.DataFrame, column: str, at: int) -> str:
    """Returns the place of a cell for a message, such as `x.csv, column 'age', row 17`."""
    row, known = table.index[at], about(table)
    name, row = row if isinstance(row, tuple) else (known.name, row)
    of_file = known.unit != "row" or name.lower().endswith(FILES)
    return f"{name}, column {column!r}, {known.unit} {row + 1 if of_file else f'{row} (from 0)'}"


def files_of(table: pd.DataFrame) -> NDArray[Any]:
    """Returns the name of each row's file, (n,)."""
    if table.index.nlevels > 1:
        return table.index.get_level_values(0).to_numpy()
    return np.full(len(table), about(table).name, dtype=object)


def gaps(table: pd.DataFrame, column: str) -> NDArray[np.bool_]:
    """Whether each cell of a column is missing."""
    return table[column].isna().to_numpy(dtype=np.bool_)


def is_number(table: pd.DataFrame, column: str) -> bool:
    """Whether a column holds numbers or truth values by its type."""
    return table[column].dtype.kind in "fiub"


def is_integer(table: pd.DataFrame, column: str) -> bool:
    """Whether a column holds whole numbers by its type."""
    return table[column].dtype.kind in "iu"


def plain(table: pd.DataFrame, column: str) -> pd.Series:
    """Returns a column whose categories are replaced by their values."""
    cells = table[column]
    return cells.astype(cells.cat.categories.dtype) if hasattr(cells, "cat") else cells


def texts(table: pd.DataFrame, column: str) -> pd.Series:
    """Returns a column in which whole numbers and truth values are texts."""
    import pandas as pd

    cells = plain(table, column)
    return cells.astype(pd.ArrowDtype(pa.string())) if cells.dtype.kind in "iub" else cells


def fits(table: pd.DataFrame, column: str) -> NDArray[np.bool_]:
    """Whether each cell is missing, a number or a truth value, by its type or its text."""
    cells = plain(table, column)
    if cells.dtype.kind in "fiub":
        return np.ones(len(cells), dtype=np.bool_)
    pattern = f"({number_pattern(about(table).decimal)}|true|false)"
    return cells.str.fullmatch(pattern).to_numpy(dtype=np.bool_, na_value=True)


def numbers(table: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """Returns a column as numbers, with NaN for a missing cell; other cells are an error."""
    cells, known, valid = plain(table, column), about(table), np.ones(len(table), dtype=np.bool_)
    values: Any = None
    if cells.dtype.kind in "fiub":
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        valid = fits(table, column)
        texts = pa.chunked_array([pa.array(cells.where(valid), pa.string())])
        values = as_numbers(texts, known.decimal)
    doubt = known.doubts.get(column, "")
    number = f"a number of at most {LARGEST:g} with decimal={known.decimal!r}{' ' * bool(doubt)}"
    require(table, column, valid & ~(np.abs(values) > LARGEST), number + doubt)
    return values


def exact(table: pd.DataFrame, column: str) -> pd.Series:
    """Returns a column of numbers in which whole numbers stay whole, texts of 64 bits too."""
    import pandas as pd

    cells = plain(table, column)
    if cells.dtype.kind in "iu":
        return cells
    if cells.dtype.kind not in "fb":
        with suppress(pa.ArrowException):
            return cells.astype(pd.ArrowDtype(pa.int64()))
    return pd.Series(numbers(table, column), index=cells.index)


def labels(table: pd.DataFrame, column: str) -> NDArray[Any]:
    """Returns a column as labels of groups; the label of a missing cell is `unknown`."""
    check_exact(table, column)
    places, cells = table[column].factorize()
    forms = np.array([*map(normal, map(group_label, cells)), UNKNOWN], dtype=object)
    return forms[places]  # the place −1 of a missing cell takes the last label


def check_exact(table: pd.DataFrame, column: str) -> None:
    """Refuses whole floats that may have lost digits, as codes, labels and times."""
    if (cells := plain(table, column)).dtype.kind == "f":
        values = cells.to_numpy()
        inexact = (np.abs(values) > EXACT) & (values % 1 == 0)
        expected = "whole numbers above 2^53 as integers or as texts, since floats lose digits"
        require(table, column, ~inexact, expected)


def with_unknown(
    table: pd.DataFrame, columns: Sequence[str], words: Sequence[str] = ()
) -> pd.DataFrame:
    """Makes cells missing whose label is among the words, and joins the labels of columns."""
    import pandas as pd

    known, unsaid = words_of(words), dict[str, pd.Series]()
    need(table, columns if words or len(columns) > 1 else ())
    for name in columns if words else ():
        is_word = [label.casefold() in known for label in labels(table, name)]
        unsaid[name] = table[name].mask(np.array(is_word, np.bool_))
    table = table.assign(**unsaid) if unsaid else table
    if len(columns) < 2:
        return table
    rows = zip(*(labels(table, name) for name in columns), strict=True)
    texts = pd.array([*map(JOINED.join, rows)], dtype=pd.ArrowDtype(pa.string()))
    return table.assign(**{JOINED.join(columns): texts})
