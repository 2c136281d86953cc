"""The columns of an encoder, whose types are the schema of a saved encoder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from itertools import combinations_with_replacement
from math import floor, inf, log10, nan
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.cells import Typed
from fairbandit.tables.columns import codes_and_reference
from fairbandit.tables.labels import as_numbers, clean

CLOSE = 1e-3  # the largest error of a feature from which a code is read
ALL = "all"  # all products of two columns, squares of numbers included

Floats = NDArray[np.float64]
Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


class Number(msgspec.Struct, frozen=True, tag="number"):
    """A column of numbers: `low` to `high` in the table, all of them whole if `whole` is true."""

    name: str
    mean: Finite = 0.0
    deviation: Finite = 1.0
    low: Finite = 0.0
    high: Finite = 0.0
    whole: bool = False

    @property
    def features(self) -> list[tuple[str, float, float]]:
        """The name, the mean and the deviation of each feature."""
        return [(self.name, self.mean, self.deviation)]

    def block(self, table: Typed, fill: bool = False) -> Floats:
        """Returns the numbers of a table before standardisation, (n, 1); NaN if missing."""
        return cells.numbers(table, self.name)[:, None]

    def decode(self, values: Floats, features: Floats, missing: bool) -> float:
        """Returns the number in the values of a row, (1,), rounded; NaN if its cell is missing.

        Standardisation loses about four of the sixteen digits of the larger of number and mean.
        """
        value = float(values[0])
        size = max(abs(value), abs(self.mean))
        if missing:
            return nan
        return round(value, 11 - floor(log10(size))) + 0.0 if size else 0.0


class Category(msgspec.Struct, frozen=True, dict=True, tag="category"):
    """A column of codes, each of which is a feature, or of the labels of groups.

    The codes in `reference` are valid and have no feature.
    """

    name: str
    codes: list[str | int | float]
    means: list[Finite]
    deviations: list[Finite]
    reference: list[str | int | float] = []
    label: bool = False

    def __post_init__(self) -> None:
        if not len(self.codes) == len(self.means) == len(self.deviations):
            raise ValueError(f"the column {self.name!r} lacks the scale of a code")
        for code in self.valid:
            str(code).encode()

    @property
    def features(self) -> list[tuple[str, float, float]]:
        """The name, the mean and the deviation of each feature."""
        names = [f"{self.name}={code}" for code in self.codes]
        return [*zip(names, self.means, self.deviations, strict=True)]

    @property
    def valid(self) -> list[Any]:
        """All codes."""
        return [*self.codes, *self.reference]

    @cached_property
    def _places(self) -> dict[Any, int]:
        forms = [clean(code) if isinstance(code, str) else code for code in self.valid]
        return {form: place for place, form in enumerate(forms)}

    @cached_property
    def _blocks(self) -> Floats:
        """The indicators of each code, with NaN of a missing cell in the last row."""
        width = len(self.codes)
        return np.vstack([np.eye(len(self.valid), width), np.full((1, width), np.nan)])

    def block(self, table: Typed, fill: bool = False) -> Floats:
        """Returns the indicators of a table's codes, (n, width), NaN if missing.

        With `fill`, unknown codes are missing; otherwise they are an error.
        """
        if self.label:
            forms = as_numbers(cells.labels(table, self.name).tolist(), self._places)
            places = np.array([self._places.get(form, -1) for form in forms], np.int64)
        else:
            of_text, decimal = isinstance(self.codes[0], str), cells.about(table).decimal
            values, rows = cells.distinct(table, self.name)
            codes = [cells.code_of(value, of_text, decimal) for value in values]
            if inf in codes:
                cells.numbers(table, self.name)  # raises an error
            places = np.array([self._places.get(code, -1) for code in codes], np.int64)[rows]
        if not fill and (places < 0).any():
            gaps = cells.gaps(table, self.name) & (not self.label)
            expected = f"one of the codes {listed([*map(repr, self.valid)])}"
            cells.require(table, self.name, gaps | (places >= 0), expected)
        return self._blocks[places]

    def _known(self, features: Floats) -> NDArray[np.bool_]:
        """Whether each row, (n, width), has a code: all features of a missing cell are 0.

        If all rows of the table have the same code, its features are 0, too, and count as a code.
        """
        return np.logical_or(features.any(1), {*self.means} <= {0.0, 1.0})

    def codes_in(self, values: Floats, features: Floats) -> NDArray[Any]:
        """Returns the code of each row, (n,), from its values and features, (n, width).

        It is None if the values are not one-hot, or are of a missing cell.
        """
        place = values.argmax(1)
        ones = place[:, None] == np.arange(values.shape[1])
        is_code = (np.abs(values - ones) < CLOSE).all(1) & self._known(features)
        return np.array([*self.codes, None], dtype=object)[np.where(is_code, place, -1)]

    def decode(self, values: Floats, features: Floats, missing: bool) -> Any:
        """Returns the code in the values and features of a row, (width,); None if it is missing.

        A row without a code of a feature has the reference code, or for several a text.
        """
        if missing or not self._known(features[None]):
            return None
        (code,) = self.codes_in(values[None], features[None])
        if self.reference and code is None and values.max() < CLOSE:
            several = len(self.reference) > 1
            return " or ".join(map(str, self.reference)) if several else self.reference[0]
        return code


class Product(msgspec.Struct, frozen=True, tag="product"):
    """The products of the features of two columns, with which linear models follow squares."""

    one: str
    other: str
    means: list[Finite]
    deviations: list[Finite]


Column = Number | Category


def present(column: Any) -> Any:
    """Returns a column of a saved encoder in the form of this version; earlier ones wrote lists."""
    if not isinstance(column, (list, tuple)):
        return column
    if len(column) == 4:
        return Product(*column)
    name, label, codes, reference, means, deviations, *numbers = column
    if codes:
        return Category(name, codes, means, deviations, reference, label)
    (mean,), (deviation,), ((low, high), *whole) = means, deviations, numbers
    return Number(name, mean, deviation, low, high, *whole)


def fitted_column(source: Typed, name: str, spec: Any, is_label: bool) -> Column:
    """Returns a column with the means and deviations of a table; see `Encoder.fitted`."""
    codes, reference = codes_and_reference(spec)
    column: Column = Number(name)
    if codes:
        unscaled = [0.0] * len(codes), [1.0] * len(codes)
        column = Category(name, codes, *unscaled, reference, is_label)
    block = column.block(source)
    if np.isnan(block).all(axis=0).any():
        raise FairbanditError(f"{cells.name_of(source)}, column {name!r}: no cell is left")
    means, deviations = scales(block)
    if isinstance(column, Category):
        return replace(column, means=means, deviations=deviations)
    low, high, whole = float(np.nanmin(block)), float(np.nanmax(block)), not (block % 1 > 0).any()
    return Number(name, means[0], deviations[0], low, high, whole)


def note_means(table: Typed, column: Column, lacking: NDArray[np.bool_], fill: bool) -> None:
    """Notes that missing cells and unknown codes get the mean; refuses the cells if not `fill`."""
    name, gaps = column.name, cells.gaps(table, column.name)
    if not fill:
        cells.require(table, name, ~gaps, "a value (missing=mean fills in the mean)")
    what = f"{cells.name_of(table)}, column {name!r}:"
    if (gaps & lacking).any():
        remark(f"{what} missing cells get the table's mean, as missing=mean asks for")
    if isinstance(column, Number):
        return
    codes, pairs = [*map(str, column.valid)], zip(table[name], lacking & ~gaps, strict=True)
    for cell in dict.fromkeys(str(cell) for cell, unknown in pairs if unknown):
        guess = did_you_mean(cell, codes)
        remark(f"{what} unknown {cell!r}{guess} gets the table's mean; known are {listed(codes)}")


def scales(block: Floats) -> tuple[list[float], list[float]]:
    """Returns means and deviations of features (n, width); a constant feature has deviation 1."""
    low = np.nanmin(block, axis=0)
    constant = low == np.nanmax(block, axis=0)
    means = np.where(constant, low, np.nanmean(block, axis=0))
    return means.tolist(), np.where(constant, 1.0, np.nanstd(block, axis=0)).tolist()


def multiplied(first: Floats, second: Floats) -> Floats:
    """Returns the products of the features of two columns, (…, w₁) and (…, w₂) to (…, w₁·w₂)."""
    return (first[..., :, None] * second[..., None, :]).reshape(*first.shape[:-1], -1)


def pairs_of(products: Any, widths: Mapping[str, int]) -> list[tuple[str, str]]:
    """Returns the pairs of columns whose products are features.

    `widths` has the number of features of each column; a category has several, and no square.
    """

    def is_pair(pair: Any) -> bool:
        if not isinstance(pair, (list, tuple)) or [*map(type, pair)] != [str, str]:
            return False
        first, second = pair
        return {first, second} <= {*widths} and (first != second or widths[first] == 1)

    if products == ALL:
        return [*filter(is_pair, combinations_with_replacement(widths, 2))]
    pairs = [] if products is None else products
    if not isinstance(pairs, (list, tuple)) or not all(map(is_pair, pairs)):
        raise FairbanditError(
            f"products: expected {ALL}, or pairs such as [[age, hours], [age, age]] of the columns "
            f"{', '.join(widths)}, where a category has no square; got {products!r}"
        )
    return [*dict.fromkeys(map(tuple, pairs))]
