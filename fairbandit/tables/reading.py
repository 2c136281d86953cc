"""Reads CSV and Parquet tables; errors name the column and the first invalid row, from 1.

- A cell is *missing* if it is null or NaN or, in a CSV file, empty or one of `MISSING`.
  `missing_values` replaces these texts, for every source.
- A *number* is at most 1e100 in magnitude; `true` is 1 and `false` is 0.
- A *label* names a group; `fairbandit.tables.labels` says which spellings are one label.
"""

from __future__ import annotations

import csv
import io
import re
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.files.files import open_regular
from fairbandit.notices import listed
from fairbandit.tables.labels import JOINED, NUMBER, normal

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

MEMORY = "memory:"
"""The prefix of the path of a table in memory."""

LARGEST = 1e100
"""The largest magnitude of a number; deviations of larger ones overflow, which makes features 0."""

MISSING = frozenset(["<NA>", "None", *pa_csv.ConvertOptions().null_values])
"""The texts that are missing cells of a CSV file, as for `pandas.read_csv`; "" is among them."""

_FILES = (".csv", ".parquet")  # how the names of tables in files end
_INDEX = re.compile(r"__index_level_[0-9]+__")  # the index of a table that pandas wrote
_in_memory: weakref.WeakValueDictionary[str, Source] = weakref.WeakValueDictionary()


def texts_of(name: str, given: Any) -> list[str]:
    """Returns a parameter as a list of texts; None is empty, and numbers become texts."""
    texts = [*given] if isinstance(given, (list, tuple)) else [] if given is None else [given]
    if any(isinstance(text, bool) or not isinstance(text, (str, int, float)) for text in texts):
        raise FairbanditError(f"{name}: expected a list of texts (in quotes, in YAML); got {given}")
    return [*map(str, texts)]


@dataclass(frozen=True)
class Source:
    """A table that was read, or some of its rows.

    Attributes:
        name: the name of the table in messages, such as its path.
        columns: the names of all columns, read or not, without an index of pandas.
        frame: the columns that were read, without nested values and bytes. They hold float64, or
            texts in Unicode's NFC without blanks around them; missing cells are null. The index
            counts the rows of the whole table from 0, after the name of the row's table if there
            are several.
        decimal: the decimal mark of numbers that are texts, `.` or `,`.
        unit: the word for a row in messages.
        missing: the texts that are missing cells.
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
        """Raises an error that names the columns which the table lacks, if any."""
        if absent := [name for name in dict.fromkeys(columns) if name not in self.frame]:
            lacking = [f"{name!r}{self._guess(name)}" for name in absent]
            raise FairbanditError(
                f"{self.name} has no column {listed(lacking)} of numbers or texts; {where}it has "
                f"{listed([*map(repr, self.columns)])}"
            )

    def _guess(self, name: str) -> str:
        """Returns a guess for the message of an unknown column; several are a list."""
        several = "," in name and {*name.split(",")} <= {*self.columns}
        return f" (did you mean [{name}]?)" if several else did_you_mean(name, self.columns)

    def require(self, column: str, valid: NDArray[np.bool_], expected: str) -> None:
        """Raises an error that names the first invalid cell of a column, if any."""
        if not valid.all():
            at = int(valid.argmin())
            cell = repr(str(self.frame[column].iat[at]))
            got = "a missing cell" if self.gaps(column)[at] else cell
            raise FairbanditError(f"{self.place(column, at)}: expected {expected}; got {got}")

    def place(self, column: str, at: int) -> str:
        """Returns the place of a cell for a message, such as `x.csv, column 'age', row 17`."""
        row = self.frame.index[at]
        name, row = row if isinstance(row, tuple) else (self.name, row)
        of_file = self.unit != "row" or name.lower().endswith(_FILES)
        return f"{name}, column {column!r}, {self.unit} {row + 1 if of_file else f'{row} (from 0)'}"

    def gaps(self, column: str) -> NDArray[np.bool_]:
        """Whether each cell of a column is missing."""
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
        """Returns a column as numbers, with NaN for a missing cell; other cells are an error."""
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
        """Returns a column as labels, with None for a missing cell."""
        places, cells = self.frame[column].factorize()
        labels = np.array([*map(normal, cells), None], dtype=object)
        return labels[places]  # the place −1 of a missing cell takes the last label

    def joined(self, columns: Sequence[str]) -> Source:
        """Adds a column that joins the labels of several; it is missing if any of them is."""
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
        source = Source(str(path), names, _frame(pa.concat_tables(batches)))
    source.need(columns, f"with {separator=} " if source.name.lower().endswith(".csv") else "")
    return _with_gaps(replace(source, decimal=decimal), missing_values)


def read_header(path: Path, separator: str) -> list[str]:
    """Returns the names of a file's columns; an index of pandas has none."""
    if path.suffix.lower() not in _FILES or not path.exists():
        tables = [file.name for file in path.parent.glob("*") if file.suffix.lower() in _FILES]
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


def read_batches(
    path: Path, names: Sequence[str], separator: str, rows: int = 1 << 20
) -> Iterator[pa.Table]:
    """Yields an empty table of some columns of a file, then at most `rows` rows at a time."""
    if twice := [repr(name) for name, times in Counter(names).items() if times > 1]:
        raise FairbanditError(f"{path} has more than one column {listed(twice)}; rename them")
    mark = "\t" if separator == "tab" else separator
    with _readable(path, separator) as file:
        if path.suffix.lower() == ".csv":  # as text, since `01` may be a code
            types = dict.fromkeys(names, pa.string())
            read = pa_csv.ReadOptions(use_threads=False, block_size=1 << 24)
            parse = pa_csv.ParseOptions(delimiter=mark, newlines_in_values=True)
            convert = pa_csv.ConvertOptions(include_columns=types, column_types=types)
            blocks = pa_csv.open_csv(file, read, parse, convert)
            schema = blocks.schema
        else:  # without read-ahead, whose threads could outlive the process
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


def _frame(table: pa.Table) -> pd.DataFrame:
    """Returns the numbers and texts of an Arrow table in the form of `Source.frame`."""
    import pandas as pd

    columns = {}
    for name, cells in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(cells.type):
            columns[name] = cells.cast(pa.float64()).to_pandas()
            continue
        try:
            texts = cells.cast(pa.string())
        except pa.ArrowException:  # nested values, or bytes
            continue
        texts = pc.utf8_normalize(pc.utf8_trim_whitespace(texts), "NFC")
        lower = pc.utf8_lower(texts)
        texts = pc.if_else(pc.is_in(lower, pa.array(["true", "false"])), lower, texts)
        columns[name] = pd.Series(texts.to_pandas(types_mapper=pd.ArrowDtype))
    return pd.DataFrame(columns)


def _with_gaps(source: Source, missing_values: Any) -> Source:
    """Makes cells missing that hold some texts, or the numbers that they spell."""
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
    """Returns an Arrow table as a source, whose first row has the number `first`, from 0."""
    frame = _frame(table)
    frame.index += first
    return _with_gaps(Source(name, table.column_names, frame), missing_values)


def table_of(data: Any) -> pa.Table:
    """Returns the data of `Table.from_data`, or a list of rows as mappings, as an Arrow table.

    Columns of numbers and texts become texts, as in a CSV file.
    """
    import pandas as pd

    try:
        if isinstance(data, (list, tuple)) and all(isinstance(row, Mapping) for row in data):
            data = pd.DataFrame(data)
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
