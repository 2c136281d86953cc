"""A table whose columns have types, which are decided here, once.

- A cell is *missing* if it is null or NaN or, in a CSV file, empty or one of `MISSING`.
  `missing_values` replaces these texts, for every source.
- A *number* is at most 1e100 in magnitude; `true` is 1 and `false` is 0.
- A *label* names a group; `fairbandit.tables.labels` says which spellings are one label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.notices import listed, remark
from fairbandit.tables.labels import (
    INVISIBLE,
    JOINED,
    NUMBER,
    UNKNOWN,
    group_label,
    normal,
    words_of,
)

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

LARGEST = 1e100
"""The largest magnitude of a number; deviations of larger ones overflow, which makes features 0."""

EXACT = 2**53
"""The largest magnitude up to which float64 holds all whole numbers."""

MISSING = frozenset(["<NA>", "None", *pa_csv.ConvertOptions().null_values])
"""The texts that are missing cells of a CSV file, as for `pandas.read_csv`; "" is among them."""

FILES = (".csv", ".parquet")
"""How the names of tables in files end."""

_THOUSANDS = "[-+]?[1-9][0-9]{0,2}([_][0-9]{3})+"
_WHOLE = "^[-+]?(0|[1-9][0-9]*)$"


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
        frame: the columns that were read and have a type: float64, whole numbers, or clean texts;
            missing cells are null. The index counts the rows of the whole table from 0, after the
            name of the row's table if there are several.
        decimal: the decimal mark of numbers that are texts, `.` or `,`.
        unit: the word for a row in messages.
        missing: the texts that are missing cells.
        refused: the reason why a column is not in the frame, by name.
    """

    name: str
    columns: Sequence[str]
    frame: pd.DataFrame
    decimal: str = "."
    unit: str = "row"
    missing: Sequence[str] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise FairbanditError(f"decimal must be a point or a comma; got {self.decimal!r}")

    def __len__(self) -> int:
        return len(self.frame)

    def need(self, columns: Iterable[str], where: str = "") -> None:
        """Raises an error that names the columns which the table lacks, if any."""
        if absent := [name for name in dict.fromkeys(columns) if name not in self.frame]:
            for name in absent:
                if name in self.refused:
                    raise FairbanditError(f"{self.name}, column {name!r}: {self.refused[name]}")
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
        of_file = self.unit != "row" or name.lower().endswith(FILES)
        return f"{name}, column {column!r}, {self.unit} {row + 1 if of_file else f'{row} (from 0)'}"

    def gaps(self, column: str) -> NDArray[np.bool_]:
        """Whether each cell of a column is missing."""
        return self.frame[column].isna().to_numpy(dtype=np.bool_)

    def is_integer(self, column: str) -> bool:
        """Whether a column holds whole numbers by its type."""
        return self.frame[column].dtype.kind in "iu"

    def is_text(self, column: str) -> bool:
        """Whether a column holds texts by its type."""
        return self.frame[column].dtype.kind not in "fiu"

    def texts(self, column: str) -> pd.Series:
        """Returns a column in which whole numbers are texts."""
        import pandas as pd

        cells = self.frame[column]
        return cells.astype(pd.ArrowDtype(pa.string())) if self.is_integer(column) else cells

    def fits(self, column: str, decimal: str | None = None) -> NDArray[np.bool_]:
        """Whether each cell is missing, a number or a truth value."""
        cells = self.frame[column]
        if not self.is_text(column):
            return np.ones(len(cells), dtype=np.bool_)
        number = NUMBER.replace("[.]", f"[{decimal or self.decimal}]")
        fits = cells.str.fullmatch(f"({number}|true|false)")
        return fits.to_numpy(dtype=np.bool_, na_value=True)

    def check_thousands(self, column: str) -> None:
        """Refuses or notes a column of a CSV file whose numbers may have marks of thousands.

        Each mark has three digits behind it, and no number without one is 1,000 or more. It is an
        error if the mark is not the decimal mark.
        """
        if not (self.is_text(column) and self.name.lower().endswith(".csv")):
            return
        cells = self.frame[column]
        for mark in ".,":
            pattern = _THOUSANDS.replace("_", mark)
            few = cells[:100].str.contains(f"[{mark}]") & ~cells[:100].str.fullmatch(pattern)
            if few.any():  # which decides for most columns
                continue
            marked = cells[cells.str.contains(mark, regex=False).fillna(False)]
            if not len(marked) or not marked.str.fullmatch(pattern).all():
                continue
            rest = cells.drop(marked.index).dropna()
            if not rest.str.fullmatch("[-+]?(0|[1-9][0-9]{0,2})").all():
                continue
            cell, other = marked.iloc[0], marked.iloc[0].replace(mark, "")
            if mark == self.decimal and len(rest) and marked.str.count(f"[{mark}]").max() == 1:
                remark(
                    f"{self.name}, column {column!r}: {cell!r} is read with three decimals, but as "
                    f"no number of 1,000 or more lacks a mark, it may be {other} with a mark of "
                    "thousands; write the numbers without these marks"
                )
            elif mark != self.decimal:
                at = self.frame.index.get_loc(marked.index[0])
                raise FairbanditError(
                    f"{self.place(column, at)}: expected a number with decimal={self.decimal!r} "
                    f"and without marks of thousands; got {cell!r}, which may be {other}"
                )

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Returns a column as numbers, with NaN for a missing cell; other cells are an error."""
        self.check_thousands(column)
        cells, fits = self.frame[column], self.fits(column)
        if self.is_text(column):
            cells = cells.where(fits)
            for word, number in (("true", "1"), ("false", "0"), (",", ".")):
                cells = cells.str.replace(word, number, regex=False)
            cells = cells.astype("double[pyarrow]")
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        number = f"a number of at most {LARGEST:g} with decimal={self.decimal!r}"
        self.require(column, fits & ~(np.abs(values) > LARGEST), number)
        return values

    def labels(self, column: str) -> NDArray[Any]:
        """Returns a column as labels of groups; that of a missing cell is `unknown`."""
        places, cells = self.frame[column].factorize()
        labels = np.array([*map(normal, map(group_label, cells)), UNKNOWN], dtype=object)
        return labels[places]  # the place −1 of a missing cell takes the last label

    def with_unknown(self, columns: Sequence[str], words: Sequence[str] = ()) -> Source:
        """Makes cells missing whose label is among the words, and joins the labels of columns."""
        known, frame = words_of(words), self.frame.copy(deep=False)
        self.need(columns if words else ())
        for name in columns if words else ():
            unsaid = [label.casefold() in known for label in self.labels(name)]
            frame[name] = frame[name].mask(np.array(unsaid, np.bool_))
        return replace(self, frame=frame).joined(columns)

    def joined(self, columns: Sequence[str]) -> Source:
        """Adds a column that joins the labels of several."""
        import pandas as pd

        if len(columns) < 2:
            return self
        self.need(columns)
        cells = [*map(JOINED.join, zip(*map(self.labels, columns), strict=True))]
        texts = pd.array(cells, dtype=pd.ArrowDtype(pa.string()))
        return replace(self, frame=self.frame.assign(**{JOINED.join(columns): texts}))


def typed_frame(table: pa.Table) -> tuple[pd.DataFrame, dict[str, str]]:
    """Returns the columns of an Arrow table that have a type, and why others have none."""
    import pandas as pd

    columns, refused, types = {}, dict[str, str](), pa.types
    for name, cells in zip(table.column_names, table.columns, strict=True):
        kind = cells.type
        if types.is_dictionary(kind):
            kind = pa.string() if "string" in str(kind.value_type) else kind.value_type
            parts = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in cells.chunks]
            cells = pa.chunked_array(parts, kind)
        try:
            if types.is_duration(kind):
                refused[name] = "durations are not read; give a number, such as the hours"
            elif isinstance(kind, pa.BaseExtensionType):
                refused[name] = f"cells of the type {kind} are neither numbers nor texts"
            elif types.is_floating(kind) or types.is_decimal(kind):
                if kind != pa.float64():  # as it was written: 0.1, not 0.10000000149
                    cells = cells.cast(pa.string())
                columns[name] = cells.cast(pa.float64()).to_pandas()
            elif types.is_integer(kind):
                columns[name] = pd.Series(cells.to_pandas(types_mapper=pd.ArrowDtype))
            else:
                texts = _texts(cells.cast(pa.string()))
                columns[name] = pd.Series(texts.to_pandas(types_mapper=pd.ArrowDtype))
        except pa.ArrowException:  # nested values, or bytes
            continue
    return pd.DataFrame(columns), refused


def _texts(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cleans texts; whole numbers that float64 may not hold become numbers if all cells are."""
    if not pc.all(pc.string_is_ascii(texts)).as_py():
        texts = pc.replace_substring_regex(texts, f"[{INVISIBLE}]", "")
        texts = pc.utf8_normalize(texts, "NFC")
    texts = pc.utf8_trim_whitespace(texts)
    lower = pc.utf8_lower(texts)
    texts = pc.if_else(pc.is_in(lower, pa.array(["true", "false"])), lower, texts)
    longest = pc.max(pc.utf8_length(texts)).as_py() or 0
    if 15 < longest < 20 and pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py():
        with suppress(pa.ArrowException):  # beyond 64 bits
            return texts.cast(pa.int64())
    return texts


def with_gaps(source: Source, missing_values: Any) -> Source:
    """Makes cells missing that hold some texts, or the numbers that they spell."""
    texts = texts_of("missing_values", missing_values)
    numbers = [float(text) for text in texts if re.fullmatch(NUMBER, text)]
    texts += [*map(repr, numbers), *map(normal, numbers)]  # -9 is written -9.0, too
    if source.name.lower().endswith(".csv"):
        texts += sorted(MISSING) if missing_values is None else [""]
    frame, source = source.frame.copy(), replace(source, missing=texts)
    for name, cells in frame.items() if texts else ():
        if not source.is_text(name):
            frame[name] = cells.mask(cells.isin(numbers))
            continue
        frame[name] = cells = cells.mask(cells.isin(texts))
        own = replace(source, frame=frame[[name]])
        if numbers and own.fits(name).all():  # however the number is written
            frame[name] = cells.mask(np.isin(own.numbers(name), numbers))
    return replace(source, frame=frame)


def source_of(
    table: pa.Table,
    name: str = "the table",
    missing_values: Any = None,
    decimal: str = ".",
) -> Source:
    """Returns an Arrow table as a source, whose rows are numbered from 0."""
    frame, refused = typed_frame(table)
    source = Source(name, table.column_names, frame, decimal, refused=refused)
    return with_gaps(source, missing_values)
