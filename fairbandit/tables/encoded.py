"""The columns of an encoder, and how cells of a table become their features."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import brief, did_you_mean
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.labels import clean
from fairbandit.tables.scaling import GAP, is_gap, rounded

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

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


def note_far(source: pd.DataFrame, column: Column, block: NDArray[np.float64]) -> bool:
    """Notes a number that is farther outside the numbers of the table than these are apart."""
    low, high = column.span
    far = block[np.abs(block * 2 - low - high) > 3 * (high - low)].tolist()
    if far:
        what = f"{cells.name_of(source)}, column {column.name!r}: {brief(far[0])} is far outside"
        remark(f"{what} {brief(low)} to {brief(high)}, the numbers of the table")
    return bool(far)


def note_means(source: pd.DataFrame, column: Column, filled: NDArray[np.bool_]) -> None:
    """Notes that missing cells get the table's mean, and which unknown codes do."""
    what, gaps = (
        f"{cells.name_of(source)}, column {column.name!r}:",
        cells.gaps(source, column.name),
    )
    if gaps.any():
        remark(f"{what} {FILLED}")
    codes = [*map(str, [*column.codes, *column.reference])]
    for cell in map(str, source[column.name][filled & ~gaps].unique()):
        guess = did_you_mean(cell, codes)
        remark(f"{what} unknown {cell!r}{guess} gets the table's mean; known are {listed(codes)}")


def encoded(source: pd.DataFrame, column: Column, fill: bool = False) -> NDArray[np.float64]:
    """Returns the features of a column before standardisation, (n, width); NaN if missing.

    With `fill`, unknown codes are missing; otherwise they are an error.
    """
    import pandas as pd  # here, since it takes a third of a second

    name, codes = column.name, [*column.codes, *column.reference]
    if not column.codes:
        return cells.numbers(source, name)[:, None]
    if column.label:
        known, values = codes, cells.labels(source, name)
    elif isinstance(codes[0], str):
        known, values = [clean(code) for code in codes], cells.texts(source, name)
    elif cells.is_integer(source, name) and all(isinstance(code, int) for code in codes):
        known, values = [*map(str, codes)], cells.texts(source, name)  # exact above 2⁵³
    else:
        known, values = [*map(float, codes)], cells.numbers(source, name)
    places, gaps = pd.Index(known).get_indexer(values), cells.gaps(source, name)
    if not fill:
        expected = f"one of the codes {listed([*map(repr, codes)])}"
        cells.require(source, name, (gaps & (not column.label)) | (places >= 0), expected)
    features = (places[:, None] == np.arange(len(column.codes))).astype(np.float64)
    features[places < 0] = np.nan
    return features


def standardised(
    source: pd.DataFrame, column: Column, fill: bool, far: set[str] | None
) -> NDArray[np.float64]:
    """Returns the features of a column, (n, width).

    Args:
        source: the table.
        column: the column.
        fill: whether missing cells and unknown codes of raw rows become the mean, with a notice.
        far: for raw rows, the columns that need no notice of far numbers; None for a table, which
            was checked before.
    """
    name = column.name
    if far is not None and not (column.label or fill):
        expected = "a value (missing=mean fills in the mean)"
        cells.require(source, name, ~cells.gaps(source, name), expected)
    block = encoded(source, column, far is not None and fill)
    if far is not None and column.span and name not in far and note_far(source, column, block):
        far.add(name)
    block = (block - column.means) / column.deviations
    if far is not None and np.isnan(block).any():
        note_means(source, column, np.isnan(block[:, 0]))
    return np.where(np.isnan(block), GAP, block)
