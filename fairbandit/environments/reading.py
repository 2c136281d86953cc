"""Reads CSV and Parquet tables once, whole; its errors name the column and the first bad row.

Rows are counted from 1 below the header. The same rules hold for both formats:

- A cell is *missing* if it is null or NaN or, in a CSV file, empty or one of the texts in
  `MISSING`. A list of other texts takes the place of these, for every source.
- A *number* is at most 1e100 in magnitude; `true` is 1 and `false` is 0.
- A *label* names a group; `fairbandit.labels` says which spellings are one label.
"""

from __future__ import annotations

import csv
import io
import logging
import re
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.files import open_regular
from fairbandit.labels import JOINED, NUMBER, normal

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

MEMORY = "memory:"
"""The beginning of the path of a table in memory."""

LARGEST = 1e100
"""The largest magnitude of a number; deviations of larger ones overflow, which makes features 0."""

MISSING = frozenset(["<NA>", "None", *pa_csv.ConvertOptions().null_values])
"""The texts that are missing cells of a CSV file, as for `pandas.read_csv`; one is empty."""

_INDEX = re.compile(r"__index_level_[0-9]+__")  # the index of a table that pandas wrote
_noted: ContextVar[list[str]] = ContextVar("_noted", default=[])  # noqa: B039 - never read
_remark = cache(logging.getLogger("fairbandit").warning)
_in_memory: weakref.WeakValueDictionary[str, Source] = weakref.WeakValueDictionary()


def listed(items: Sequence[str], limit: int = 30) -> str:
    """The first `limit` items as text for a message, with the number of the others."""
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def remark(text: str) -> None:
    """Logs what was done with a table, once in a process, so that a sweep does not repeat it."""
    _noted.get().append(text)
    _remark(text)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Yields the list that all remarks within the block are added to, too."""
    notes = list[str]()
    token = _noted.set(notes)
    try:
        yield notes
    finally:
        _noted.reset(token)


def texts_of(name: str, given: Any) -> list[str]:
    """A parameter that is a list of texts, or one text, or None for none; numbers become texts."""
    found = [*given] if isinstance(given, (list, tuple)) else [] if given is None else [given]
    if any(isinstance(one, bool) or not isinstance(one, (str, int, float)) for one in found):
        raise FairbanditError(f"{name}: expected a list of texts (in quotes, in YAML); got {given}")
    return [str(one) for one in found]


@dataclass(frozen=True)
class Source:
    """A table that was read, or some of its rows.

    Attributes:
        name: what messages call it, such as its path.
        columns: the names of all its columns, read or not, but for an index of pandas.
        frame: the columns that were read, without those of nested values or bytes. They hold
            float64, or texts in Unicode's NFC without blanks around them; missing cells are null.
            The index counts the rows of the whole table, from 0; of several tables, it holds the
            name of each row's table before that.
        decimal: the decimal mark of numbers that are texts, `.` or `,`.
        unit: what messages call a row.
        missing: the texts that are missing cells, in further rows too.
    """

    name: str
    columns: Sequence[str]
    frame: pd.DataFrame
    decimal: str = "."
    unit: str = "row"
    missing: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise FairbanditError(f"decimal must be a point or a comma; got {self.decimal!r}")

    def __len__(self) -> int:
        return len(self.frame)

    def need(self, columns: Iterable[str], where: str = "") -> None:
        """Raises an error that names the columns that the table lacks, if it lacks any."""
        lacking = [repr(name) for name in dict.fromkeys(columns) if name not in self.frame]
        if lacking:
            raise FairbanditError(
                f"{self.name} has no column {listed(lacking)} of numbers or texts; {where}it has "
                f"{listed([*map(repr, self.columns)])}"
            )

    def require(self, column: str, valid: NDArray[np.bool_], expected: str) -> None:
        """Checks the cells of a column; raises an error that names the first that is not valid."""
        if not valid.all():
            at = int(valid.argmin())
            missing, cell = self.gaps(column)[at], str(self.frame[column].iloc[at])
            row = self.frame.index[at]
            name, row = row if isinstance(row, tuple) else (self.name, row)
            raise FairbanditError(
                f"{name}, column {column!r}, {self.unit} {row + 1}: expected {expected}; "
                f"got {'a missing cell' if missing else repr(cell)}"
            )

    def gaps(self, column: str) -> NDArray[np.bool_]:
        """Whether the cell of each row is missing."""
        return self.frame[column].isna().to_numpy(dtype=np.bool_)

    def fits(self, column: str, decimal: str | None = None) -> NDArray[np.bool_]:
        """Whether each cell is missing, a number or a truth value."""
        cells = self.frame[column]
        if cells.dtype == np.float64:
            return np.ones(len(cells), dtype=np.bool_)
        number = NUMBER.replace("[.]", f"[{decimal or self.decimal}]")
        fits = cells.str.fullmatch(f"({number}|true|false)")
        return fits.to_numpy(dtype=np.bool_, na_value=True)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column as numbers, NaN where a cell is missing; raises an error for any other cell."""
        cells, fits = self.frame[column], self.fits(column)
        if cells.dtype != np.float64:
            cells = cells.where(fits)
            for word, number in (("true", "1"), ("false", "0"), (",", ".")):
                cells = cells.str.replace(word, number, regex=False)
            cells = cells.astype("double[pyarrow]")
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        number = f"a number of at most {LARGEST:g} with decimal={self.decimal!r}"
        self.require(column, fits & ~(np.abs(values) > LARGEST), number)
        return values

    def labels(self, column: str) -> NDArray[Any]:
        """A column as labels, one a row; None where a cell is missing."""
        places, cells = self.frame[column].factorize()
        labels = np.array([*map(normal, cells), None], dtype=object)
        return labels[places]  # −1, of a missing cell, takes the last

    def joined(self, columns: Sequence[str]) -> Source:
        """The table with a column that joins the labels of several; it is missing where one is."""
        import pandas as pd

        if len(columns) < 2:
            return self
        self.need(columns)
        rows = zip(*map(self.labels, columns), strict=True)
        cells = [None if None in row else JOINED.join(row) for row in rows]
        texts = pd.array(cells, dtype=pd.ArrowDtype(pa.string()))
        return replace(self, frame=self.frame.assign(**{JOINED.join(columns): texts}))


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
        path: a file that ends in .csv (in UTF-8) or .parquet, or what `keep` returned.
        columns: the names of columns that the table must have.
        every: reads all columns that have a name, and not these alone.
        separator, decimal, missing_values: see `Table`.
    """
    source = _in_memory.get(str(path))
    if source is None:
        names = read_header(Path(path), separator)
        asked = [name for name in names if every or name in columns]
        batches = read_batches(Path(path), asked, separator)
        source = Source(str(path), names, _frame(pa.concat_tables(batches)))
    source.need(columns, f"with separator={separator!r} ")
    return _with_gaps(replace(source, decimal=decimal), missing_values)


def read_header(path: Path, separator: str) -> list[str]:
    """The names of a file's columns, without an index of pandas and columns without a name."""
    if path.suffix.lower() not in (".csv", ".parquet") or not path.exists():
        raise FairbanditError(f"there is no file {path} that ends in .csv or .parquet")
    mark = "\t" if separator == "tab" else separator
    if len(mark) != 1 or mark in '"\r\n':
        raise FairbanditError(f"separator must be one character, or tab; got {separator!r}")
    with _readable(path, separator) as file:
        if path.suffix.lower() == ".parquet":
            names = pq.read_schema(file).names
        else:
            lines = io.TextIOWrapper(file, "utf-8-sig", newline="")
            names = next(filter(None, csv.reader(lines, delimiter=mark)), [])
    marks = [one for one in ";,\t|" if len(names) == 1 and one in names[0]]
    if marks and mark not in marks:
        right = marks[0].replace("\t", "tab")
        raise FairbanditError(
            f"{path} has one column {names[0]!r}; expected separator={right!r}, on the command "
            f"""line 'separator="{right}"', and 'environment.separator="{right}"' for a run"""
        )
    return [name for name in names if name and not _INDEX.fullmatch(name)]


def read_batches(
    path: Path, names: Sequence[str], separator: str, rows: int = 1 << 20
) -> Iterator[pa.Table]:
    """Reads some columns of a file: first a table without rows, then at most `rows` at a time."""
    if twice := [repr(name) for name, times in Counter(names).items() if times > 1]:
        raise FairbanditError(f"{path} has more than one column {listed(twice)}; rename them")
    mark = "\t" if separator == "tab" else separator
    with _readable(path, separator) as file:
        if path.suffix.lower() == ".csv":  # as text, since `01` is no number where codes are meant
            types = dict.fromkeys(names, pa.string())
            read = pa_csv.ReadOptions(use_threads=False, block_size=1 << 24)
            parse = pa_csv.ParseOptions(delimiter=mark, newlines_in_values=True)
            convert = pa_csv.ConvertOptions(include_columns=types, column_types=types)
            blocks = pa_csv.open_csv(file, read, parse, convert)
            schema = blocks.schema
        else:  # without read-ahead, whose threads could outlive a process that ends at once
            whole = pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
            blocks, schema = whole.iter_batches(rows, use_threads=False), whole.schema_arrow
        yield schema.empty_table().select(names)
        for block in blocks:
            for low in range(0, len(block), rows):
                batch = pa.table(block.slice(low, rows)).select(names)
                batch.validate(full=True)
                yield batch


@contextmanager
def _readable(path: Path, separator: str) -> Iterator[BinaryIO]:
    """Opens the file of a table; errors of its readers say what kind of file was expected."""
    try:
        with open_regular(path) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeError, csv.Error) as error:
        reason = str(error).partition("\n")[0][:200]
        raise FairbanditError(
            f"{path} is not a readable table; it may be truncated, and a CSV file must be in UTF-8 "
            f"with {separator=}: {reason}"
        ) from error


def _frame(table: pa.Table) -> pd.DataFrame:
    """The columns of an Arrow table that hold numbers or texts, as `Source` has them."""
    import pandas as pd

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
        found[name] = pd.Series(texts.to_pandas(types_mapper=pd.ArrowDtype))
    return pd.DataFrame(found)


def _with_gaps(source: Source, missing_values: Any) -> Source:
    """A table in which some texts, and the numbers that they spell, are missing cells."""
    texts = texts_of("missing_values", missing_values)
    numbers = [float(text) for text in texts if re.fullmatch(NUMBER, text)]
    texts += [*map(repr, numbers), *map(normal, numbers)]  # -9 is written -9.0, too
    if source.name.lower().endswith(".csv"):
        texts += sorted(MISSING) if missing_values is None else [""]
    frame = source.frame.copy()
    for name, cells in frame.items() if texts else ():
        frame[name] = cells.mask(cells.isin(numbers if cells.dtype == np.float64 else texts))
    return replace(source, frame=frame, missing=texts)


def source_of(
    table: pa.Table, name: str = "the table", first: int = 0, missing_values: Any = None
) -> Source:
    """A table in memory, whose first row is number `first` of the whole, from 0."""
    names = [column for column in table.column_names if column and not _INDEX.fullmatch(column)]
    if len(set(names)) < len(names):
        raise FairbanditError(f"{name} has more than one column of one name: {listed(names)}")
    frame = _frame(table.select(names))
    frame.index += first
    return _with_gaps(Source(name, names, frame), missing_values)


def table_of(data: Any) -> pa.Table:
    """An Arrow table of what `Table.from_data` takes, or of a list of rows, each a mapping."""
    import pandas as pd
    from pandas.api.types import infer_dtype

    try:
        if isinstance(data, (list, tuple)) and all(isinstance(row, Mapping) for row in data):
            data = pd.DataFrame(data)
        if isinstance(data, pd.DataFrame):  # Arrow has no texts for intervals, as of `pd.cut`
            cells = {name: getattr(one.dtype, "categories", one) for name, one in data.items()}
            bins = [name for name, one in cells.items() if infer_dtype(one) == "interval"]
            data = data.astype(dict.fromkeys(bins, object))
            data[bins] = data[bins].map(str, na_action="ignore")
        return pa.table(data.reset_index(drop=True) if hasattr(data, "reset_index") else data)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError) as error:
        raise FairbanditError(
            "expected a DataFrame, an Arrow table or a mapping from names to columns; got a "
            f"{type(data).__name__}: {' '.join(map(str, error.args))}"
        ) from error


def keep(data: Any) -> tuple[str, Source]:
    """The path by which `read_table` finds a table in memory, as long as its `Source` lives.

    Another table has another path. `Table.from_data` says what `data` may be.
    """
    from pandas.util import hash_pandas_object

    table = table_of(data)
    source = source_of(table)
    contents = hash_pandas_object(source.frame, index=False).to_numpy().tobytes()
    path = MEMORY + sha256(repr(table.column_names).encode() + contents).hexdigest()
    return path, _in_memory.setdefault(path, source)
