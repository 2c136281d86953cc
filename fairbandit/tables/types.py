"""The types of a table's columns, which are decided once, where the table is read."""

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

EXACT = 2**53  # the largest magnitude up to which float64 holds all whole numbers
_WHOLE = "[-+]?(0|[1-9][0-9]*)"
_SMALL = "[-+]?(0|[1-9][0-9]{0,2})"
_MARKED = "[-+]?[1-9][0-9]{0,2}"


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
        """The texts that are missing cells, with other spellings of numbers."""
        numbers = self.numbers
        return [*self.missing, *map(repr, numbers), *map(normal, numbers)]


def number_pattern(decimal: str) -> str:
    """Returns how numbers are spelled with a decimal mark, as a regular expression."""
    return NUMBER.replace("[.]", f"[{decimal}]")


def is_number(kind: pa.DataType) -> bool:
    """Whether a type of Arrow is of numbers."""
    is_type = pa.types
    return is_type.is_integer(kind) or is_type.is_floating(kind) or is_type.is_decimal(kind)


def typed(
    cells: pa.ChunkedArray, marks: Marks, where: str, of_csv: bool
) -> tuple[pd.Series | None, str]:
    """Returns a column with a type, null where a cell is missing, and a reason or "".

    The types are whole numbers, float64, truth values, texts, and categories of numbers. The reason
    says why the column is left out, or why texts that look like numbers are not numbers.
    """
    kind, is_type = cells.type, pa.types
    unfit = None, f"cells of the type {kind} are neither numbers nor texts"
    if is_type.is_duration(kind):
        return None, "durations are not read; give a number, such as the hours"
    if isinstance(kind, pa.BaseExtensionType):
        return unfit
    try:
        if is_type.is_dictionary(kind):
            plain = pa.string() if "string" in str(kind.value_type) else kind.value_type
            parts = [chunk.dictionary.cast(plain).take(chunk.indices) for chunk in cells.chunks]
            column, reason = typed(pa.chunked_array(parts, plain), marks, where, of_csv=False)
            if column is not None and column.dtype.kind in "fiu":
                column = column.astype("category")
            return column, reason
        if is_type.is_boolean(kind):
            return _series(cells), ""
        if is_type.is_integer(kind):
            return _without(_series(cells), marks), ""
        if is_number(kind) or is_type.is_null(kind):
            if kind != pa.float64():  # as it was written: 0.1, not 0.10000000149
                cells = cells.cast(pa.string())
            return _whole(_without(cells.cast(pa.float64()).to_pandas(), marks)), ""
        texts = _clean(cells.cast(pa.string()))
    except pa.ArrowException:  # nested values, or bytes
        return unfit
    if marks.missing:
        texts = pc.if_else(pc.is_in(texts, pa.array(marks.texts, pa.string())), None, texts)
    return _of_texts(texts, marks, where) if of_csv else (_series(texts), "")


def _series(cells: pa.ChunkedArray) -> pd.Series:
    import pandas as pd

    return pd.Series(cells.to_pandas(types_mapper=pd.ArrowDtype))


def _without(column: pd.Series, marks: Marks) -> pd.Series:
    return column.mask(column.isin(marks.numbers))


def _whole(column: pd.Series) -> pd.Series:
    """Makes floats whole numbers if all of them are whole and exact, as in a column with gaps."""
    known = column.dropna().to_numpy()
    exact = len(known) and (np.abs(known) < EXACT).all() and (known % 1 == 0).all()
    if not exact or (np.signbit(known) & (known == 0)).any():
        return column
    return _series(pa.chunked_array([pa.array(column, from_pandas=True)]).cast(pa.int64()))


def _clean(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pc.all(pc.string_is_ascii(texts)).as_py():
        texts = pc.replace_substring_regex(texts, f"[{INVISIBLE}]", "")
        texts = pc.utf8_normalize(texts, "NFC")
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(_fit(texts, "(?i:true|false)"), pc.utf8_lower(texts), texts)


def _fit(texts: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return pc.match_substring_regex(texts, f"^({pattern})$")


def _all_fit(texts: pa.ChunkedArray, pattern: str) -> bool:
    parts = (texts[:100], texts)  # the first cells decide for most columns
    return all(pc.all(_fit(part, pattern)).as_py() is not False for part in parts)


def _of_texts(texts: pa.ChunkedArray, marks: Marks, where: str) -> tuple[pd.Series, str]:
    import pandas as pd

    known, plain = texts.drop_null(), texts
    if not len(known):
        return pd.Series(np.full(len(texts), np.nan)), ""
    if _all_fit(known, "true|false"):
        return _series(texts.cast(pa.bool_())), ""
    if marks.thousands:
        marked = f"{_MARKED}([{marks.thousands}][0-9]{{3}})+([{marks.decimal}][0-9]+)?"
        without = pc.replace_substring(texts, marks.thousands, "")
        plain = pc.if_else(_fit(texts, marked), without, texts)
    values = _parsed(plain, marks.decimal)
    if values is None:
        return _series(texts), _doubt(known, marks)
    if np.isfinite(values).sum() < len(known) or pc.any(_fit(plain, CODE)).as_py():
        return _series(texts), ""
    if marks.thousands is None:
        _note_thousands(known, marks, where, values)
    column = pd.Series(values)
    if np.nanmax(np.abs(values)) > EXACT and _all_fit(known, _WHOLE):
        try:
            return _without(_series(plain.cast(pa.int64())), marks), ""
        except pa.ArrowException:  # beyond 64 bits
            return _series(texts), ""
    return _without(_whole(column), marks), ""


def _parsed(texts: pa.ChunkedArray, decimal: str) -> Any:
    """Returns numbers and truth values as an array, NaN where null; None if any is neither."""
    words = pc.is_in(texts, pa.array(["true", "false"]))
    if pc.any(words).as_py():
        texts = pc.if_else(words, pc.if_else(pc.equal(texts, "true"), "1", "0"), texts)
    if decimal == ",":
        if pc.any(pc.match_substring(texts, ".")).as_py():
            return None
        texts = pc.replace_substring(texts, ",", ".")
    try:
        return texts.cast(pa.float64()).to_numpy()
    except pa.ArrowException:
        return None


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
    cells = known.filter(_fit(known, pattern))
    if not 0 < len(cells) < len(known) or not _all_fit(known, f"{pattern}|{_SMALL}"):
        return
    cell = cells[0].as_py()
    remark(
        f"{where}: {cell!r} is read with three decimals, and the numbers are "
        f"{np.nanmin(values):g} to {np.nanmax(values):g}. It may be "
        f"{cell.replace(marks.decimal, '')} with a mark of thousands, since no number of 1,000 or "
        f"more lacks a mark: then set thousands={marks.decimal!r} and the other decimal mark"
    )
