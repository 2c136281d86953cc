"""The cells of a typed table, which `read_table` returns: numbers, labels, gaps and places.

- A *number* is at most 1e100 in magnitude; `true` is 1 and `false` is 0.
- A *label* names a group; `fairbandit.tables.labels` says which spellings are one label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.notices import listed
from fairbandit.tables.labels import JOINED, TRUTH, group_label, normal, words_of
from fairbandit.tables.types import EXACT, number_pattern

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

FILES = (".csv", ".parquet")  # how the names of tables in files end
LARGEST = 1e100  # in magnitude; deviations of larger numbers overflow, which makes features 0
_NUMBERS = {decimal: re.compile(number_pattern(decimal)) for decimal in ".,"}


@dataclass(frozen=True)
class About:
    """Facts about a typed table for messages: its name, all its columns, and how it was read.

    `reasons` say, by column, why a column is left out, or why its texts are not numbers.
    """

    name: str = "the table"
    columns: Sequence[str] = ()
    decimal: str = "."
    unit: str = "row"
    missing: Sequence[str] = ()
    separator: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """A typed table of raw rows without pandas, since making a DataFrame takes milliseconds."""

    columns: Mapping[str, list[Any]]
    about: About

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    def assign(self, **columns: list[Any]) -> Rows:
        """Returns the table with further or other columns."""
        return Rows({**self.columns, **columns}, self.about)


Typed: TypeAlias = "pd.DataFrame | Rows"
"""A typed table: a DataFrame that `read_table` returns, or raw rows."""


def with_about(frame: pd.DataFrame, about: About) -> pd.DataFrame:
    """Returns a typed table, in which the index counts the rows, after the name of their file."""
    frame.attrs["fairbandit"] = about
    return frame


def about(table: Any) -> About:
    """Returns the facts about a table; pandas passes them on to parts of the table."""
    if isinstance(table, Rows):
        return table.about
    facts = getattr(table, "attrs", {}).get("fairbandit")
    return facts if isinstance(facts, About) else About()


def name_of(table: Typed) -> str:
    """Returns the name of a table in messages."""
    return about(table).name


def need(table: Typed, columns: Iterable[str], where: str = "") -> None:
    """Raises an error that names the columns which the table lacks, if any."""
    absent, facts = [name for name in dict.fromkeys(columns) if name not in table], about(table)
    if not absent:
        return
    if refused := [name for name in absent if name in facts.reasons]:
        name = refused[0]
        raise FairbanditError(f"{facts.name}, column {name!r}: {facts.reasons[name]}")
    guesses = list[str]()
    for name in absent:
        several = "," in name and {*name.split(",")} <= {*facts.columns}
        guess = f" (did you mean [{name}]?)" if several else did_you_mean(name, facts.columns)
        guesses.append(f"{name!r}{guess}")
    where = f"with separator={facts.separator!r} {where}" if facts.separator else where
    raise FairbanditError(
        f"{facts.name} has no column {listed(guesses)} of numbers or texts; {where}it has "
        f"{listed([*map(repr, facts.columns)])}"
    )


def require(table: Typed, column: str, valid: NDArray[np.bool_], expected: str) -> None:
    """Raises an error that names the first invalid cell of a column, if any."""
    if not valid.all():
        at = int(valid.argmin())
        cell = next(islice(table[column], at, None))
        got = "a missing cell" if gaps(table, column)[at] else repr(str(cell))
        row, facts = at if isinstance(table, Rows) else table.index[at], about(table)
        name, row = row if isinstance(row, tuple) else (facts.name, row)
        of_file = facts.unit != "row" or name.lower().endswith(FILES)
        place = f"{facts.unit} {row + 1 if of_file else f'{row} (from 0)'}"
        raise FairbanditError(f"{name}, column {column!r}, {place}: expected {expected}; got {got}")


def files_of(table: pd.DataFrame) -> NDArray[Any]:
    """Returns the name of each row's file, (n,)."""
    if table.index.nlevels > 1:
        return table.index.get_level_values(0).to_numpy()
    return np.full(len(table), about(table).name, dtype=object)


def gaps(table: Typed, column: str) -> NDArray[np.bool_]:
    """Whether each cell of a column is missing."""
    cells = table[column]
    if isinstance(cells, list):
        return np.array([cell is None for cell in cells], np.bool_)
    return cells.isna().to_numpy(dtype=np.bool_)


def distinct(table: Typed, column: str) -> tuple[list[Any], NDArray[np.int64]]:
    """Returns the distinct cells, with None for a missing one, and the place of each row's cell.

    The cells of raw rows are returned as they are.
    """
    cells = table[column]
    if isinstance(cells, list):
        return cells, np.arange(len(cells))
    places, values = cells.factorize()
    return [*values.tolist(), None], places  # the place −1 of a missing cell takes the last


def is_number(table: pd.DataFrame, column: str) -> bool:
    """Whether a column holds numbers or truth values by its type."""
    return table[column].dtype.kind in "fiub"


def plain(table: Typed, column: str) -> Any:
    """Returns a column whose categories are replaced by their values."""
    cells: Any = table[column]
    return cells.astype(cells.cat.categories.dtype) if hasattr(cells, "cat") else cells


def texts(table: pd.DataFrame, column: str) -> pd.Series:
    """Returns a column in which whole numbers and truth values are texts."""
    import pandas as pd

    cells = plain(table, column)
    return cells.astype(pd.ArrowDtype(pa.string())) if cells.dtype.kind in "iub" else cells


def number_of(cell: Any, decimal: str = ".") -> float:
    """Returns a cell as a number: NaN if missing, infinity if it is too large or not a number."""
    if cell is None:
        return math.nan
    if not isinstance(cell, str):
        return float(cell) if abs(cell) <= LARGEST else math.inf
    if cell in TRUTH:
        return float(TRUTH[cell])
    return float(cell.replace(",", ".")) if _NUMBERS[decimal].fullmatch(cell) else math.inf


def code_of(cell: Any, of_text: bool, decimal: str = ".") -> Any:
    """Returns a cell as the code of a category, a text or an exact number; None if missing."""
    if cell is None or isinstance(cell, str) == of_text:
        return cell
    if not of_text:
        return int(cell) if re.fullmatch("[-+]?[0-9]+", cell) else number_of(cell, decimal)
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell)


def _numbers(table: Typed, column: str) -> NDArray[np.float64]:
    cells = plain(table, column)
    if not isinstance(cells, list) and cells.dtype.kind in "fiub":
        return cells.to_numpy(dtype=np.float64, na_value=np.nan)
    values, places = distinct(table, column)
    decimal = about(table).decimal
    return np.array([number_of(value, decimal) for value in values], np.float64)[places]


def fits(table: pd.DataFrame, column: str) -> NDArray[np.bool_]:
    """Whether each cell is missing, a number or a truth value, by its type or its text."""
    return ~np.isinf(_numbers(table, column))


def numbers(table: Typed, column: str) -> NDArray[np.float64]:
    """Returns a column as numbers, with NaN for a missing cell; other cells are an error."""
    values = _numbers(table, column)
    if (large := np.abs(values) > LARGEST).any():
        facts = about(table)
        number = f"a number of at most {LARGEST:g} with decimal={facts.decimal!r}"
        require(table, column, ~large, f"{number} {facts.reasons.get(column, '')}".rstrip())
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


def labels(table: Typed, column: str) -> NDArray[Any]:
    """Returns a column as labels of groups; missing cells are `unknown`."""
    check_exact(table, column)
    values, places = distinct(table, column)
    if about(table).decimal == ",":  # a number is one label, however it is written
        fits = _NUMBERS[","].fullmatch
        values = [v.replace(",", ".") if isinstance(v, str) and fits(v) else v for v in values]
    return np.array([normal(group_label(value)) for value in values], object)[places]


def check_exact(table: Typed, column: str) -> None:
    """Refuses whole floats that may have lost digits, as codes, labels and times."""
    cells = plain(table, column)
    if isinstance(cells, list) or cells.dtype.kind == "f":
        values = np.array([cell if type(cell) is float else 0.0 for cell in cells])
        inexact = (np.abs(values) > EXACT) & (values % 1 == 0)
        expected = "whole numbers above 2^53 as integers or as texts, since floats lose digits"
        require(table, column, ~inexact, expected)


def with_unknown(table: Any, columns: Sequence[str], words: Sequence[str] = ()) -> Any:
    """Makes cells missing whose label is among the words, and joins the labels of columns."""
    import pandas as pd

    unsaid = words_of(words)
    need(table, columns if words or len(columns) > 1 else ())
    for name in columns if words else ():
        is_word = np.array([label.casefold() in unsaid for label in labels(table, name)], np.bool_)
        cells = table[name]
        if isinstance(cells, list):
            cells = [None if word else cell for word, cell in zip(is_word, cells, strict=True)]
        else:
            cells = cells.mask(is_word)
        table = table.assign(**{name: cells})
    if len(columns) < 2:
        return table
    rows: Any = [*map(JOINED.join, zip(*(labels(table, name) for name in columns), strict=True))]
    if not isinstance(table, Rows):
        rows = pd.array(rows, dtype=pd.ArrowDtype(pa.string()))
    return table.assign(**{JOINED.join(columns): rows})
