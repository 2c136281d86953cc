"""How the cells of a table are spelled: numbers, truth values, labels and missing values."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairbandit.errors import FairbanditError


class MissingCellError(FairbanditError):
    """A cell is missing where a value is needed; the message names the cell."""


MISSING = frozenset(
    {
        *("", "na", "n/a", "<na>", "nan", "-nan", "nat", "null", "none"),
        *("#na", "#n/a", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
    }
)
"""The texts that pandas and Arrow read as a missing value, in lower case."""

NORMAL = float(np.finfo(np.float64).tiny)
"""The smallest positive float64 that has all of its digits."""

SAFE = 15
"""So many significant digits survive in every normal float64."""

_INTEGER = re.compile(r"([-+]?)0*([0-9]+)(?:\.0*)?")


def cast(cells: Any) -> Any:
    """The cells as float64, or None if one is not a number or an integer beyond 2⁵³."""
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return None


def plain(cells: Any) -> Any:
    """Texts without surrounding blanks, where empty ones are null and truth values are 1 and 0."""
    texts = pc.utf8_trim_whitespace(pc.cast(cells, pa.string()))
    lowered = pc.utf8_lower(texts)
    for spelling, value in (("", None), ("true", "1"), ("false", "0")):
        texts = pc.if_else(pc.equal(lowered, spelling), pa.scalar(value, pa.string()), texts)
    return texts


def keeps_digits(text: str, value: float) -> bool:
    """Whether a value, written with as many digits as the text, is the text again.

    So is the shortest form of a value, which may differ in its last digit where the value lies half
    way between two numbers of as many digits.

    >>> keeps_digits("0.1", 0.1), keeps_digits("9007199254740993", 9007199254740993.0)
    (True, False)
    """
    if value == 0:
        return not re.search("[1-9]", re.split("[eE]", text)[0])
    written = Decimal(text)
    _, digits, _ = written.as_tuple()
    shortest = Decimal(repr(value)).as_tuple() == written.as_tuple()
    return shortest or Decimal(f"{value:.{len(digits) - 1}e}") == written


def spelled(distinct: Any) -> list[str]:
    """Distinct cells as texts, with floats as Python writes them and truth values in lower case."""
    if pa.types.is_floating(distinct.type):
        texts = [str(value) for value in distinct.to_numpy(zero_copy_only=False)]
    else:
        texts = [(text or "").strip() for text in pc.cast(distinct, pa.string()).to_pylist()]
    return [canonical(text) for text in texts]


def canonical(text: str) -> str:
    """The text with truth values in lower case, so that `True` and `TRUE` become `true`."""
    lowered = text.lower()
    return lowered if lowered in ("true", "false") else text


def distinct_texts(cells: Any) -> Any:
    """The distinct texts of some cells in Arrow's spelling, without missing values.

    Blanks around a text are cut off, and truth values are in lower case.

    Raises:
        pa.ArrowNotImplementedError, pa.ArrowInvalid: the cells have no text form.
    """
    texts = pc.utf8_trim_whitespace(pc.cast(pc.unique(cells), pa.string()))
    lowered = pc.utf8_lower(texts)
    texts = pc.if_else(pc.is_in(lowered, pa.array(["true", "false"])), lowered, texts)
    return pc.drop_null(pc.unique(without_missing(texts)))


def without_missing(cells: Any) -> Any:
    """The cells, with null for texts that spell a missing value."""
    if not pa.types.is_string(cells.type):
        return cells
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    missing = pc.is_in(lowered, pa.array(sorted(MISSING)))
    return pc.if_else(missing, pa.scalar(None, pa.string()), cells)


def label(text: str) -> str:
    """The text with one spelling of each whole number, so that `1.0` and `01` become `1`."""
    if number := _INTEGER.fullmatch(text):
        return f"-{number[2]}" if number[1] == "-" and number[2] != "0" else number[2]
    return text
