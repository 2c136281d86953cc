"""The columns of an encoder, and how cells of a table become their features."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import brief, did_you_mean
from fairbandit.notices import listed, remark
from fairbandit.tables.labels import clean
from fairbandit.tables.scaling import is_gap, rounded
from fairbandit.tables.source import Source

FILLED = "missing cells get the table's mean, as missing=mean asks for"
"""The end of a notice of missing cells."""

CLOSE = 1e-3
"""The largest error of a feature from which a code is read."""


class Column(NamedTuple):
    """A column of numbers, of the codes of a category, or of the labels of groups.

    `span` is the least and the greatest number of the table, if the column holds numbers, and
    `whole` says whether all of them are whole.
    """

    name: str
    label: bool
    codes: Sequence[Any]
    reference: Sequence[Any]
    means: Sequence[float] = ()
    deviations: Sequence[float] = ()
    span: Sequence[float] = ()
    whole: bool = False

    def codes_in(self, features: NDArray[np.float64]) -> NDArray[Any]:
        """Returns the code of each row, (n,), from its features, (n, width).

        It is None if the features are not one-hot, or are all 0, as of a missing cell.
        """
        values = features * self.deviations + self.means
        place = values.argmax(1)
        ones = place[:, None] == np.arange(len(self.codes))
        one = (np.abs(values - ones) < CLOSE).all(1) & features.any(1)
        return np.array([*self.codes, None], dtype=object)[np.where(one, place, -1)]

    def value_in(self, features: NDArray[np.float64]) -> Any:
        """Returns the number or the code in the features of a row, (width,); see `decoded`."""
        block = features * self.deviations + self.means
        if is_gap(features):
            return None if self.codes else nan
        if not self.codes:
            return rounded(float(block[0]), self.means[0])
        if block.max() > 0.99:
            return self.codes[int(block.argmax())]
        if len(self.reference) > 1 and block.max() < 0.01:
            return " or ".join(map(str, self.reference))
        return self.reference[0] if self.reference and block.max() < 0.01 else None


class Product(NamedTuple):
    """The products of the features of two columns, standardised like a column."""

    one: str
    other: str
    means: Sequence[float]
    deviations: Sequence[float]


def note_far(source: Source, column: Column, block: NDArray[np.float64]) -> bool:
    """Notes a number that is farther outside the numbers of the table than these are apart."""
    low, high = column.span
    far = block[np.abs(block * 2 - low - high) > 3 * (high - low)].tolist()
    if far:
        what = f"{source.name}, column {column.name!r}: {brief(far[0])} is far outside"
        remark(f"{what} {brief(low)} to {brief(high)}, the numbers of the table")
    return bool(far)


def note_means(source: Source, column: Column, filled: NDArray[np.bool_]) -> None:
    """Notes that missing cells get the table's mean, and which unknown codes do."""
    what, gaps = f"{source.name}, column {column.name!r}:", source.gaps(column.name)
    if gaps.any():
        remark(f"{what} {FILLED}")
    codes = [*map(str, [*column.codes, *column.reference])]
    for cell in map(str, source.frame[column.name][filled & ~gaps].unique()):
        guess = did_you_mean(cell, codes)
        remark(f"{what} unknown {cell!r}{guess} gets the table's mean; known are {listed(codes)}")


def encoded(source: Source, column: Column, fill: bool = False) -> NDArray[np.float64]:
    """Returns the features of a column before standardisation, (n, width); NaN if missing.

    With `fill`, unknown codes are missing; otherwise they are an error.
    """
    import pandas as pd  # here, since it takes a third of a second

    name, codes = column.name, [*column.codes, *column.reference]
    if not column.codes:
        return source.numbers(name)[:, None]
    if column.label:
        known, cells = codes, source.labels(name)
    elif isinstance(codes[0], str):
        known, cells = [clean(code) for code in codes], source.texts(name)
    elif source.is_integer(name) and all(isinstance(code, int) for code in codes):
        known, cells = [*map(str, codes)], source.texts(name)  # exact above 2⁵³
    else:
        known, cells = [*map(float, codes)], source.numbers(name)
    places, gaps = pd.Index(known).get_indexer(cells), source.gaps(name)
    if not fill:
        expected = f"one of the codes {listed([*map(repr, codes)])}"
        source.require(name, (gaps & (not column.label)) | (places >= 0), expected)
    features = (places[:, None] == np.arange(len(column.codes))).astype(np.float64)
    features[places < 0] = np.nan
    return features
