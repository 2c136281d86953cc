"""Reads CSV and Parquet tables once, whole; its errors name the column and the first bad row.

Rows are counted from 1 below the header. The same rules hold for both formats:

- A cell is *missing* if it is empty, NaN, or one of the texts in `MISSING`.
- A *number* is finite and at most 1e100 in magnitude; `true` is 1 and `false` is 0.
- A *label* names a group. Different spellings of one number or truth value are one label (`1`,
  `1.0`, `01` and `1e0` are `1`, `True` is `true`), and so are the Unicode forms of one text.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
import unicodedata
import weakref
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError

MEMORY = "memory:"
"""The beginning of the path of a table in memory."""

LARGEST = 1e100
"""The largest magnitude of a number; its square, and sums of squares, stay finite."""

MOST_COLUMNS = 5_000
"""The most columns that are read."""

MISSING = frozenset(
    {
        *("", "na", "n/a", "<na>", "nan", "-nan", "nat", "null", "none"),
        *("#na", "#n/a", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
    }
)
"""The texts that pandas and Arrow read as a missing value, in lower case."""

NUMBER = r"(?i:[-+]?(?:(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:e[-+]?[0-9]+)?|inf|infinity))"
"""How numbers are spelled, as a regular expression."""

DECIMAL_COMMA = r"[-+]?(?:[0-9]+|[0-9]*,[0-9]+)"
"""How numbers are spelled where a comma is the decimal mark."""

DECIMAL_REMEDY = """if commas are decimal marks, set 'environment.decimal=","'; else remove them"""
"""What to type for numbers with commas."""

_WHOLE = re.compile(r"([-+]?)0*([0-9]+)(?:[.]0*)?")
_DAMAGE = (pa.ArrowException, OSError, UnicodeError, csv.Error, KeyError)
_in_memory: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def listed(items: Sequence[str], limit: int = 30) -> str:
    """The first `limit` items as text for a message, with the number of the others."""
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def is_readable(kind: Any) -> bool:
    """Whether `Source.cells` of an Arrow type are numbers or texts."""
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    return any(test(kind) for test in tests)


def canonical(value: Any) -> str:
    """A cell as text in Unicode's NFC, with truth values in lower case."""
    text = unicodedata.normalize("NFC", str(value))
    return text.lower() if text.lower() in ("true", "false") else text


def label(text: str) -> str:
    """The text with one spelling of each number, so that `1.0`, `01` and `1e0` become `1`."""
    if whole := _WHOLE.fullmatch(text):  # of any length
        return f"-{whole[2]}" if whole[1] == "-" and whole[2] != "0" else whole[2]
    value = float(text) if re.fullmatch(NUMBER, text) else math.nan
    if not math.isfinite(value) or len(text) > 17:  # float64 may not have all the digits
        return text
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


@dataclass(frozen=True)
class Source:
    """A table that was read.

    Attributes:
        name: the path of the file, or what else messages call the table.
        columns: the names of all its columns, of which some may not have been read.
        table: the columns that were read, as an Arrow table.
        decimal: the decimal mark of numbers that are texts, `.` or `,`.
    """

    name: str
    columns: Sequence[str]
    table: Any
    decimal: str = "."

    def __len__(self) -> int:
        return int(self.table.num_rows)

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

    def cells(self, column: str, valid: Collection[str] = ()) -> Any:
        """A column as a chunked Arrow array: texts without blanks around them, in Unicode's NFC.

        Missing cells are null, or NaN among numbers. Truth values and decimals become texts.

        Args:
            column: its name.
            valid: texts that are not missing although they are spelled like it.
        """
        cells = self.table.column(column)
        try:
            cells.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self.error(column, None, f"the cells are damaged: {error}") from None
        kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
        texts = (pa.types.is_boolean, pa.types.is_decimal, pa.types.is_large_string)
        if any(test(kind) for test in (*texts, pa.types.is_string_view)):
            kind = pa.string()
        cells = cells.cast(kind)
        if not pa.types.is_string(kind):
            return cells
        cells = pc.utf8_normalize(pc.utf8_trim_whitespace(cells), "NFC")
        gone = pc.is_in(pc.utf8_lower(cells), pa.array(sorted(MISSING)))
        kept = pc.is_in(cells, pa.array([*valid], pa.string()))
        return pc.if_else(pc.and_not(gone, kept), pa.scalar(None, pa.string()), cells)

    def gaps(self, column: str, valid: Collection[str] = ()) -> NDArray[np.bool_]:
        """Whether the cell of each row is missing."""
        gaps = pc.is_null(self.cells(column, valid), nan_is_null=True)
        return np.asarray(gaps.to_numpy(), dtype=np.bool_)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column as numbers, one a row; NaN where a cell is missing.

        Raises:
            FairbanditError: a cell is no number, or above `LARGEST`.
        """
        cells = self.cells(column)
        if not is_readable(cells.type):
            raise self.error(column, None, f"expected numbers, got {cells.type}")
        if pa.types.is_string(cells.type):
            texts = self.dotted(cells)
            for spelling, value in (("true", "1"), ("false", "0")):
                texts = pc.if_else(pc.equal(texts, spelling), pa.scalar(value), texts)
            fits = pc.fill_null(pc.match_substring_regex(texts, f"^{NUMBER}$"), True)
            if not pc.all(fits).as_py():
                row = pc.index(fits, False).as_py()
                text = cells[row].as_py()
                comma = self.decimal == "." and re.fullmatch(DECIMAL_COMMA, text)
                problem = f"expected a number, got the text {text!r}"
                raise self.error(column, row, problem + (f"; {DECIMAL_REMEDY}" if comma else ""))
            cells = texts
        values = pc.cast(cells, pa.float64(), safe=False).to_numpy()
        large = np.abs(values) > LARGEST
        if large.any():
            row = int(large.argmax())
            problem = f"expected a number of at most {LARGEST:g}, got {values[row]:g}"
            raise self.error(column, row, problem)
        return np.asarray(values, dtype=np.float64)

    def texts(
        self, column: str, valid: Collection[str] = ()
    ) -> tuple[list[str], NDArray[np.int64]]:
        """A column's distinct texts, and the index of each row's text; −1 for a missing cell.

        Args:
            column: its name.
            valid: texts that are not missing although they are spelled like it.

        Raises:
            FairbanditError: the cells are neither texts nor numbers.
        """
        cells = self.cells(column, valid)
        if not is_readable(cells.type):
            raise self.error(column, None, f"expected labels or codes, got {cells.type}")
        encoded = pa.concat_arrays([pa.array([], cells.type), *cells.chunks]).dictionary_encode()
        places = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        places = np.where(self.gaps(column, valid), -1, places)
        return [canonical(value) for value in encoded.dictionary.to_pylist()], places

    def labels(self, column: str) -> tuple[list[str], NDArray[np.int64]]:
        """As `texts`, with one spelling of each number; no label stands twice."""
        texts, places = self.texts(column)
        known: dict[str, int] = {}
        codes = [known.setdefault(label(text), len(known)) for text in texts]
        return list(known), np.array([*codes, -1], dtype=np.int64)[places]  # −1 takes the last

    def dotted(self, cells: Any) -> Any:
        """Texts in lower case with a point as the decimal mark, so that numbers can be read."""
        lowered = pc.utf8_lower(cells)
        if self.decimal == ".":
            return lowered
        # with a decimal comma, what has a point is no number
        swapped = pc.replace_substring(lowered, ",", ".")
        return pc.if_else(pc.match_substring(lowered, "."), pa.scalar("a point"), swapped)


def read_table(
    path: str | Path,
    columns: Sequence[str],
    *,
    every: bool = False,
    separator: str = ",",
    decimal: str = ".",
) -> Source:
    """Reads columns of a table into memory.

    Args:
        path: a file that ends in .csv (in UTF-8) or .parquet, or what `keep` returned.
        columns: the names of columns that the table must have.
        every: reads all columns that have a name, and not these alone.
        separator: what stands between the cells of a CSV file.
        decimal: the decimal mark of numbers that are texts.

    Raises:
        FairbanditError: the file is missing, damaged or of another type, a column is missing, or
            two columns have one name.
    """
    if str(path).startswith(MEMORY):
        if (table := _in_memory.get(str(path))) is None:
            raise FairbanditError(
                f"{path} was a table in memory and is gone; give it again with Table.from_data, or "
                "write it to a Parquet file and give its path"
            )
        names = table.column_names
        require("the table", names, columns)
        return Source("the table", names, table, decimal)
    path = Path(path)
    names = column_names(path, separator)
    require(path, names, columns, separator)
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
                return Source(str(path), names, file.read(wanted, use_threads=False), decimal)
        # as text, since `01` is no number where codes are meant
        types = dict.fromkeys(wanted, pa.string())
        table = pa_csv.read_csv(
            path,
            # without threads, messages of Arrow name the row
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=1 << 24),
            parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(include_columns=wanted, column_types=types),
        )
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    return Source(str(path), names, table, decimal)


def column_names(path: Path, separator: str = ",") -> list[str]:
    """The names of a file's columns.

    Raises:
        FairbanditError: the file is missing, empty, damaged or of another type.
    """
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


def require(
    table: str | Path, names: Sequence[str], columns: Sequence[str], separator: str = ","
) -> None:
    """Checks that a table has each of the columns, and no name twice.

    Raises:
        FairbanditError: it has not; the message lists the columns there are.
    """
    counts = Counter(names)
    lacking = [repr(name) for name in dict.fromkeys(columns) if not counts[name]]
    if lacking:
        told = f"{table} has no column {listed(lacking)}; it has {listed([*map(repr, names)])}"
        for mark, typed in ((";", ";"), ("\t", "tab"), ("|", "|")):
            if mark != separator and any(mark in name for name in names):
                told += f". If {mark!r} separates its cells, set "
                told += f"'environment.separator=\"{typed}\"'"
        raise FairbanditError(told)
    # names may be empty: spreadsheets leave empty columns behind
    twice = [repr(name) for name in counts if name and counts[name] > 1]
    if twice:
        raise FairbanditError(
            f"{table}: column {listed(twice)} stands more than once in the header; every name must "
            "be unique, so rename one of them in the file"
        )


def keep(data: Any) -> tuple[str, Any]:
    """Keeps a table in memory for `read_table` as long as the Arrow table lives that is returned.

    Args:
        data: a pandas DataFrame, whose index is left out, a pyarrow Table, another object with
            Arrow's PyCapsule interface, or a mapping from names to columns.

    Returns:
        Its path, with a hash of its content, and the Arrow table.

    Raises:
        FairbanditError: no such table, or a column of mixed types.
    """
    pandas = type(data).__module__.startswith("pandas.") and hasattr(data, "columns")
    buffer = pa.BufferOutputStream()
    try:
        made = pa.Table.from_pandas(data, preserve_index=False) if pandas else pa.table(data)
        table = made.replace_schema_metadata(None).combine_chunks()
        with pa.ipc.new_stream(buffer, table.schema) as stream:
            stream.write_table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(part) for part in error.args)
        raise FairbanditError(
            "expected a DataFrame, an Arrow table or a mapping from names to columns, which Arrow "
            f"can hold; got a {type(data).__name__}: {reason}"
        ) from error
    path = MEMORY + hashlib.sha256(buffer.getvalue()).hexdigest()[:20]
    return path, _in_memory.setdefault(path, table)


def _damaged(path: Path, error: Exception) -> FairbanditError:
    kind = "CSV (UTF-8)" if path.suffix.lower() == ".csv" else "Parquet"
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return FairbanditError(f"{path} is not a readable {kind} file; it may be truncated: {reason}")
