"""The types of a table's columns, which are decided once, where the table is read.

The columns of a frame have types already. Only the texts of a CSV file are typed by rules: numbers
and truth values get their type, and `01` stays a text, since it may be a code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairbandit.notices import remark
from fairbandit.tables.labels import CODE, INVISIBLE, NUMBER, normal

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

EXACT = 2**53
"""The largest magnitude up to which float64 holds all whole numbers."""

_WHOLE = "[-+]?(0|[1-9][0-9]*)"
_SMALL = "[-+]?(0|[1-9][0-9]{0,2})"
_MARKED = "[-+]?[1-9][0-9]{0,2}"

SAMPLE = 100
"""The number of cells that are looked at first, which decide for most columns."""


class UntypedError(ValueError):
    """A column has no type; the message says why."""


class Marks(NamedTuple):
    """How cells are read: the decimal mark, the mark of thousands, and texts for missing cells."""

    decimal: str = "."
    thousands: str | None = None
    missing: tuple[str, ...] = ()

    @property
    def numbers(self) -> list[float]:
        """The numbers that are missing cells."""
        return [float(text) for text in self.missing if re.fullmatch(NUMBER, text)]

    @property
    def texts(self) -> list[str]:
        """The texts that are missing cells: a number is written -9, -9.0 and in its normal form."""
        numbers = self.numbers
        return [*self.missing, *map(repr, numbers), *map(normal, numbers)]


def number_pattern(decimal: str) -> str:
    """Returns how numbers are spelled with a decimal mark, as a regular expression."""
    return NUMBER.replace("[.]", f"[{decimal}]")


def series_of(cells: pa.ChunkedArray) -> pd.Series:
    """Returns a column of Arrow as a Series of the same type."""
    import pandas as pd

    return pd.Series(cells.to_pandas(types_mapper=pd.ArrowDtype))


def is_number(kind: pa.DataType) -> bool:
    """Whether a type of Arrow is of numbers."""
    is_type = pa.types
    return is_type.is_integer(kind) or is_type.is_floating(kind) or is_type.is_decimal(kind)


def typed(cells: pa.ChunkedArray, marks: Marks, where: str, of_csv: bool) -> tuple[pd.Series, str]:
    """Returns a column with a type, null where a cell is missing, and a doubt or "".

    The types are whole numbers, float64, truth values, texts, and categories of numbers. A doubt
    says why texts that look like numbers are none. Cells without such a type raise an
    `UntypedError`, or a `pa.ArrowException`, as nested cells do.
    """
    kind, is_type = cells.type, pa.types
    if is_type.is_dictionary(kind):
        plain = pa.string() if "string" in str(kind.value_type) else kind.value_type
        parts = [chunk.dictionary.cast(plain).take(chunk.indices) for chunk in cells.chunks]
        column, doubt = typed(pa.chunked_array(parts, plain), marks, where, of_csv=False)
        return column.astype("category") if column.dtype.kind in "fiu" else column, doubt
    if is_type.is_duration(kind):
        raise UntypedError("durations are not read; give a number, such as the hours")
    if isinstance(kind, pa.BaseExtensionType):
        raise UntypedError(f"cells of the type {kind} are neither numbers nor texts")
    if is_type.is_boolean(kind):
        return series_of(cells), ""
    if is_type.is_integer(kind):
        column = series_of(cells)
        return column.mask(column.isin(marks.numbers)), ""
    if is_number(kind) or is_type.is_null(kind):
        if kind != pa.float64():  # as it was written: 0.1, not 0.10000000149
            cells = cells.cast(pa.string())
        column = cells.cast(pa.float64()).to_pandas()
        return _whole(column.mask(column.isin(marks.numbers))), ""
    texts = _clean(cells.cast(pa.string()))
    if marks.missing:
        texts = pc.if_else(pc.is_in(texts, pa.array(marks.texts, pa.string())), None, texts)
    if not of_csv:
        return series_of(texts), ""
    return _of_texts(texts, marks, where)


def _clean(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pc.all(pc.string_is_ascii(texts)).as_py():
        texts = pc.replace_substring_regex(texts, f"[{INVISIBLE}]", "")
        texts = pc.utf8_normalize(texts, "NFC")
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(_fit(texts, "(?i:true|false)"), pc.utf8_lower(texts), texts)


def _fit(texts: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return pc.match_substring_regex(texts, f"^({pattern})$")


def _all_fit(texts: pa.ChunkedArray, pattern: str) -> bool:
    first = pc.all(_fit(texts[:SAMPLE], pattern)).as_py() is not False
    return first and pc.all(_fit(texts, pattern)).as_py() is not False


def _of_texts(texts: pa.ChunkedArray, marks: Marks, where: str) -> tuple[pd.Series, str]:
    import pandas as pd

    known, plain = texts.drop_null(), texts
    if not len(known):
        return pd.Series(np.full(len(texts), np.nan)), ""
    if _all_fit(known, "true|false"):
        return series_of(texts.cast(pa.bool_())), ""
    if marks.thousands:
        marked = f"{_MARKED}([{marks.thousands}][0-9]{{3}})+([{marks.decimal}][0-9]+)?"
        without = pc.replace_substring(texts, marks.thousands, "")
        plain = pc.if_else(_fit(texts, marked), without, texts)
    values = _parsed(plain, marks.decimal)
    if values is not None and np.isfinite(values).sum() < len(known):
        return series_of(texts), ""
    if values is None or pc.any(_fit(plain, CODE)).as_py():
        return series_of(texts), "" if values is not None else _doubt(known, marks)
    if np.nanmax(np.abs(values)) > EXACT and _all_fit(known, _WHOLE):
        try:
            column = series_of(plain.cast(pa.int64()))
        except pa.ArrowException:  # beyond 64 bits
            return series_of(texts), ""
    else:
        if marks.thousands is None:
            _note_thousands(known, marks, where, values)
        column = _whole(pd.Series(values))
    return column.mask(column.isin(marks.numbers)), ""


def _parsed(texts: pa.ChunkedArray, decimal: str) -> Any:
    """Returns numbers and truth values as an array, NaN where null; None if any is neither.

    Too large numbers, and the texts `inf` and `nan`, are not finite.
    """
    words = pc.is_in(texts, pa.array(["true", "false"]))
    if pc.any(words).as_py():
        texts = pc.if_else(words, pc.if_else(pc.equal(texts, "true"), "1", "0"), texts)
    if decimal == ",":
        if pc.any(pc.match_substring(texts, ".")).as_py():
            return None
        texts = pc.replace_substring(texts, ",", ".")
    try:
        values = texts.cast(pa.float64())
    except pa.ArrowException:
        return None
    return values.to_numpy()


def _whole(column: pd.Series) -> pd.Series:
    """Makes floats whole numbers if all are, as those of a column with gaps, and are exact."""
    known = column.dropna().to_numpy()
    exact = len(known) and (np.abs(known) < EXACT).all() and (known % 1 == 0).all()
    if not exact or (np.signbit(known) & (known == 0)).any():
        return column
    return series_of(pa.chunked_array([pa.array(column, from_pandas=True)]).cast(pa.int64()))


def _doubt(known: pa.ChunkedArray, marks: Marks) -> str:
    decimal, other = marks.decimal, "." if marks.decimal == "," else ","
    number = number_pattern(decimal)
    marked = rf"{_MARKED}([{other}][0-9]{{3}})+([{decimal}][0-9]+)?"
    several = rf"{_MARKED}([{decimal}][0-9]{{3}}){{2,}}"
    reasons = {
        f"without marks of thousands, which thousands={other!r} reads": f"{number}|{marked}",
        f"without marks of thousands, which decimal={other!r} thousands={decimal!r} reads": (
            f"{number}|{several}"
        ),
        f"and not decimal={other!r}": number_pattern(other),
        "and with the sign - or +": f"{number}|[−–]{number}",
    }
    return next((why for why, pattern in reasons.items() if _all_fit(known, pattern)), "")


def _note_thousands(known: pa.ChunkedArray, marks: Marks, where: str, values: Any) -> None:
    pattern = rf"{_MARKED}[{marks.decimal}][0-9]{{3}}"
    if not _all_fit(known, f"{pattern}|{_SMALL}"):
        return
    with_mark = _fit(known, pattern)
    if pc.all(with_mark).as_py() or not pc.any(with_mark).as_py():
        return
    cell = known.filter(with_mark)[0].as_py()
    remark(
        f"{where}: {cell!r} is read with three decimals, so that the numbers are "
        f"{np.nanmin(values):g} to {np.nanmax(values):g}, but as no number of 1,000 or more lacks "
        f"a mark, it may be {cell.replace(marks.decimal, '')} with a mark of thousands, which "
        f"thousands={marks.decimal!r} and the other decimal mark read"
    )
