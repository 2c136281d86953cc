"""Reads CSV and Parquet tables once, whole; its errors name the column and the first bad row.

Rows are counted from 1 below the header. The same rules hold for both formats:

- A cell is *missing* if it is empty, NaN, or one of the texts in `MISSING`.
- A *number* is at most 1e100 in magnitude; `true` is 1 and `false` is 0.
- A *label* names a group. Different spellings of one number or truth value are one label (`1`,
  `1.0`, `01` and `1e0` are `1`, `True` is `true`), and so are the Unicode forms of one text.
"""

from __future__ import annotations

import csv
import logging
import re
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError

if TYPE_CHECKING:
    import pandas as pd

MEMORY = "memory:"
"""The beginning of the path of a table in memory."""

LARGEST = 1e100
"""The largest magnitude of a number; deviations of larger ones overflow, which makes features 0."""

MOST_COLUMNS = 5_000
"""The most columns that are read, and the greatest d; a policy keeps d×d numbers a replica."""

MISSING = (
    *("", "na", "n/a", "<na>", "nan", "-nan", "nat", "null", "none"),
    *("#na", "#n/a", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
)
"""The texts that pandas and Arrow read as a missing value, in lower case."""

NUMBER = r"(?i:[-+]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:e[-+]?[0-9]+)?)"
"""How numbers are spelled, as a regular expression."""

DECIMAL_REMEDY = """if commas are decimal marks, set 'environment.decimal=","'; else remove them"""
"""What to type for numbers with commas."""

_log = logging.getLogger("fairbandit")
_DAMAGE = (pa.ArrowException, OSError, UnicodeError, csv.Error, KeyError)
_in_memory: weakref.WeakValueDictionary[str, Source] = weakref.WeakValueDictionary()
_numbered = count(1)


def listed(items: Sequence[str], limit: int = 30) -> str:
    """The first `limit` items as text for a message, with the number of the others."""
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


@cache
def remark(text: str) -> None:
    """Logs what was done with a table, once in a process, so that a sweep does not repeat it."""
    _log.warning(text)


def label(cell: str | float) -> str:
    """A cell as text with one spelling of each number, so that `1.0`, `01` and `1e0` become `1`."""
    text = str(cell)
    if len(text) > 15 or not re.fullmatch(NUMBER, text):  # float64 holds 15 digits
        return text
    value = float(text)
    return str(int(value)) if value.is_integer() else repr(value)


@dataclass(frozen=True)
class Source:
    """A table that was read.

    Attributes:
        name: what messages call it, such as its path.
        columns: the names of all its columns, read or not.
        frame: the columns that were read, without those of nested values or bytes. They hold
            float64, or texts in Unicode's NFC without blanks around them; missing cells are null.
        decimal: the decimal mark of numbers that are texts, `.` or `,`.
    """

    name: str
    columns: Sequence[str]
    frame: pd.DataFrame
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.frame)

    def error(self, column: str, row: int | None, problem: str) -> FairbanditError:
        """The error for the cell that has `row` rows before it, or for a whole column."""
        where = "" if row is None else f", row {row + 1}"
        return FairbanditError(f"{self.name}, column {column!r}{where}: {problem}")

    def require_cells(self, column: str, gaps: NDArray[np.bool_]) -> None:
        """Raises an error if a cell is missing."""
        if gaps.any():
            problem = "the cell is missing; environment.missing=drop leaves out rows with missing "
            problem += "cells, and environment.missing=mean fills in the mean of a feature"
            raise self.error(column, int(gaps.argmax()), problem)

    def cells(self, column: str) -> pd.Series:
        """A column of `frame`; raises an error if its cells are neither numbers nor texts."""
        if column not in self.frame:
            raise self.error(column, None, "expected numbers or texts, got nested values or bytes")
        return self.frame[column]

    def gaps(self, column: str) -> NDArray[np.bool_]:
        """Whether the cell of each row is missing."""
        return self.cells(column).isna().to_numpy(dtype=np.bool_)

    def fits(self, column: str, decimal: str | None = None) -> NDArray[np.bool_]:
        """Whether each cell is missing, a number or a truth value."""
        cells = self.cells(column)
        if cells.dtype == np.float64:
            return np.ones(len(cells), dtype=np.bool_)
        number = NUMBER.replace("[.]", f"[{decimal or self.decimal}]")
        fits = cells.str.fullmatch(f"({number}|true|false)")
        return fits.to_numpy(dtype=np.bool_, na_value=True)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column as numbers, NaN where a cell is missing; raises an error for any other cell."""
        cells, fits = self.cells(column), self.fits(column)
        if not fits.all():
            row = int(fits.argmin())
            problem = f"expected a number, got the text {cells[row]!r}"
            comma = "," in cells[row] and self.fits(column, ",")[row]
            raise self.error(column, row, problem + (f"; {DECIMAL_REMEDY}" if comma else ""))
        if cells.dtype != np.float64:
            for word, number in (("true", "1"), ("false", "0"), (",", ".")):
                cells = cells.str.replace(word, number, regex=False)
            cells = cells.astype("double[pyarrow]")
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        large = np.abs(values) > LARGEST
        if large.any():
            row = int(large.argmax())
            problem = f"expected a number of at most {LARGEST:g}, got {values[row]:g}"
            raise self.error(column, row, problem)
        return values

    def labels(self, column: str) -> NDArray[Any]:
        """A column as labels, one a row; None where a cell is missing."""
        places, cells = self.cells(column).factorize()
        labels = np.array([*map(label, cells), None], dtype=object)
        return labels[places]  # −1, of a missing cell, takes the last


def read_table(
    path: str | Path,
    columns: Sequence[str],
    every: bool = False,
    separator: str = ",",
    decimal: str = ".",
) -> Source:
    """Reads columns of a table into memory.

    Args:
        path: a file that ends in .csv (in UTF-8) or .parquet, or what `keep` returned.
        columns: the names of columns that the table must have.
        every: reads all columns that have a name, and not these alone.
        separator, decimal: see `Table`.

    Raises:
        FairbanditError: the file is missing, damaged or of another type, a column is missing, or
            two columns have one name.
    """
    if str(path).startswith(MEMORY):
        if (source := _in_memory.get(str(path))) is None:
            raise FairbanditError(
                f"{path} was a table in memory and is gone; give it again with Table.from_data, or "
                "write it to a Parquet file and give its path"
            )
        _require(source.name, source.columns, columns)
        return replace(source, decimal=decimal)
    path = Path(path)
    names = _names(path, separator)
    _require(path, names, columns, separator)
    wanted = [name for name in names if name] if every else list(dict.fromkeys(columns))
    if len(wanted) > MOST_COLUMNS:
        raise FairbanditError(
            f"{path} has {len(wanted):,} columns, and at most {MOST_COLUMNS:,} are read; "
            "environment.columns chooses the features"
        )
    try:
        if path.suffix.lower() == ".parquet":
            # without read-ahead, whose threads could outlive a process that ends at once
            with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
                table = file.read(wanted, use_threads=False)
        else:  # as text, since `01` is no number where codes are meant
            types = dict.fromkeys(wanted, pa.string())
            table = pa_csv.read_csv(
                path,  # without threads, messages of Arrow name the row
                read_options=pa_csv.ReadOptions(use_threads=False, block_size=1 << 24),
                parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(include_columns=wanted, column_types=types),
            )
        return Source(str(path), names, _frame(table), decimal)
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _frame(table: pa.Table) -> pd.DataFrame:
    """The columns of an Arrow table that hold numbers or texts, as `Source` has them."""
    import pandas as pd  # here, since it takes a third of a second

    table.validate(full=True)
    found = {}
    for name, cells in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(cells.type):
            found[name] = cells.cast(pa.float64()).to_pandas()
            continue
        try:
            texts = cells.cast(pa.string())
        except pa.ArrowException:  # nested values, or bytes
            continue
        texts = pc.utf8_normalize(pc.utf8_trim_whitespace(texts), "NFC")
        lower = pc.utf8_lower(texts)
        texts = pc.if_else(pc.is_in(lower, pa.array(["true", "false"])), lower, texts)
        texts = pc.if_else(pc.is_in(lower, pa.array(MISSING)), pa.scalar(None, pa.string()), texts)
        found[name] = pd.Series(texts.to_pandas(types_mapper=pd.ArrowDtype))
    return pd.DataFrame(found)


def _names(path: Path, separator: str) -> list[str]:
    if not path.is_file():
        raise FairbanditError(f"there is no file {path}; expected a CSV or Parquet table")
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise FairbanditError(f"{path} ends in {ending or 'nothing'!r}; expected .csv or .parquet")
    try:
        if ending == ".parquet":
            return list(pq.read_schema(path).names)
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next(filter(None, csv.reader(file, delimiter=separator)), [])
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    if not names:
        raise FairbanditError(f"{path} is empty; expected a table with a header")
    return names


def _require(
    table: str | Path, names: Sequence[str], columns: Sequence[str], separator: str = ","
) -> None:
    """Checks that a table has each of the columns, and no name twice."""
    counts = Counter(names)
    lacking = [repr(name) for name in dict.fromkeys(columns) if not counts[name]]
    if lacking:
        message = f"{table} has no column {listed(lacking)}; it has {listed([*map(repr, names)])}"
        for mark, typed in ((";", ";"), ("\t", "tab"), ("|", "|")):
            if mark != separator and any(mark in name for name in names):
                message += f". If {mark!r} separates its cells, set "
                message += f"'environment.separator=\"{typed}\"'"
        raise FairbanditError(message)
    # names may be empty: spreadsheets leave empty columns behind
    twice = [repr(name) for name in counts if name and counts[name] > 1]
    if twice:
        raise FairbanditError(
            f"{table}: column {listed(twice)} stands more than once in the header; every name must "
            "be unique, so rename one of them in the file"
        )


def keep(data: Any) -> tuple[str, Source]:
    """The path by which `read_table` finds a table in memory, as long as its `Source` lives.

    `Table.from_data` says what `data` may be.

    Raises:
        FairbanditError: no such table, or a column of mixed types.
    """
    try:
        table = pa.table(data.reset_index(drop=True) if hasattr(data, "reset_index") else data)
        source = Source("the table", table.column_names, _frame(table))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise FairbanditError(
            "expected a DataFrame, an Arrow table or a mapping from names to columns, which Arrow "
            f"can hold; got a {type(data).__name__}: {' '.join(map(str, error.args))}"
        ) from error
    path = f"{MEMORY}{next(_numbered)}"
    return path, _in_memory.setdefault(path, source)


def _damaged(path: Path, error: Exception) -> FairbanditError:
    kind = "CSV (UTF-8)" if path.suffix.lower() == ".csv" else "Parquet"
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return FairbanditError(f"{path} is not a readable {kind} file; it may be truncated: {reason}")
