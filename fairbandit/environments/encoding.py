"""Turns the rows of a table into features: numbers stay as they are, categories become one-hot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.cells import canonical
from fairbandit.environments.reading import Block, listed
from fairbandit.errors import FairbanditError

CATEGORY = "category"
"""The specification of a category whose codes are the values that the table has."""

_SPEC = (
    f"null (a number), {CATEGORY} (the codes are the values in the table), a list of codes, or "
    "{codes: [...], reference: [...]}"
)
_GAP = -2  # the place of a missing cell's code


@dataclass(frozen=True)
class Feature:
    """How one column of a table becomes features.

    Attributes:
        column: its name in the table.
        codes: the codes that get a one-hot feature each, in order; None for a number.
        reference: valid codes that get no feature.
    """

    column: str
    codes: tuple[float | str, ...] | None = None
    reference: tuple[float | str, ...] = ()

    @classmethod
    def parse(cls, column: str, spec: Any) -> Feature:
        """A feature from plain data: null, a list of codes, or a mapping with `reference` too.

        The codes of a `category` are those of the table, and are put in its place beforehand.
        """
        if spec is None or spec == CATEGORY:
            return cls(column)
        where = f"environment.columns.{column}"
        given = spec if isinstance(spec, Mapping) else {"codes": spec}
        codes, reference = given.get("codes", ()), given.get("reference", ())
        lists = _is_list(codes) and _is_list(reference) and codes
        if not lists or given.keys() - {"codes", "reference"}:
            raise FairbanditError(f"{where}: expected {_SPEC}; got {spec!r}")
        known = [*codes, *reference]
        numeric = [isinstance(code, (int, float)) and not isinstance(code, bool) for code in known]
        if not all(numeric) and not all(isinstance(code, str) for code in known):
            raise FairbanditError(
                f"{where}: codes are all numbers or all texts (put a text in quotes), got {known}"
            )
        unfit = [code for code in known if not isinstance(code, str) and not _is_float64(code)]
        if unfit:
            raise FairbanditError(
                f"{where}: a code must be a number that float64 holds, or a text; got {unfit[0]}"
            )
        spelled = {canonical(code) if isinstance(code, str) else code for code in known}
        if len(spelled) != len(known):
            raise FairbanditError(f"{where}: a code stands twice in {known}")
        return cls(column, tuple(codes), tuple(reference))

    @property
    def names(self) -> list[str]:
        """The names of the features: `age`, or `job=1`, `job=2`, …"""
        if self.codes is None:
            return [self.column]
        return [f"{self.column}={code}" for code in self.codes]

    def encode(self, block: Block) -> NDArray[np.float64]:
        """The features of a block of rows, (rows, number of names); NaN where a cell is missing."""
        if self.codes is None:
            return block.numbers(self.column)[:, None]
        places = self._places(block, [*self.codes, *self.reference])
        features = (places[:, None] == np.arange(len(self.codes))).astype(np.float64)
        features[places == _GAP] = np.nan
        return features

    def _places(self, block: Block, book: list[float | str]) -> NDArray[np.int64]:
        """The position of each row's code among the valid codes; `_GAP` for a missing cell."""
        known: dict[Any, int]
        cells: list[Any]
        if isinstance(book[0], str):
            known = {canonical(str(code)): place for place, code in enumerate(book)}
            cells, rows = block.texts(self.column, known)
        else:
            known = {float(code): place for place, code in enumerate(book)}
            values, rows = np.unique(block.numbers(self.column), return_inverse=True)
            cells = values.tolist()
            rows = np.where(np.isnan(values)[rows], -1, rows)
        # a row of index −1 takes the last entry
        places = np.array([*(known.get(cell, -1) for cell in cells), _GAP], dtype=np.int64)[rows]
        unknown = places == -1
        if unknown.any():
            offset = int(unknown.argmax())
            codes, got = listed([repr(code) for code in book]), cells[rows[offset]]
            problem = f"expected one of the codes {codes}; got {got!r}"
            raise block.error(self.column, offset, problem)
        return places


class Encoding:
    """The features of a table's rows, in the order of `columns`; see `Feature.parse`.

    Attributes:
        names: the names of the d features.
        owners: the column that each feature comes from, the bias left out.
        bias: whether there is a last feature, called `bias`, that is always 1.

    Raises:
        FairbanditError: a specification is invalid, or there is no column.

    >>> Encoding({"age": None, "job": [1, 2]}, bias=True).names
    ['age', 'job=1', 'job=2', 'bias']
    """

    def __init__(self, columns: Mapping[str, Any], bias: bool) -> None:
        if not isinstance(columns, Mapping):
            raise FairbanditError(
                f"environment.columns must be a mapping {{column: spec}}, a spec being {_SPEC}; "
                "or the path of a .yaml file with such a mapping; or null for the columns of the "
                f"table; got {columns!r}"
            )
        self._features = [Feature.parse(str(name), spec) for name, spec in columns.items()]
        if not self._features:
            raise FairbanditError(
                f"environment.columns is empty; expected {{column: spec}}, a spec being {_SPEC}"
            )
        self.bias = bias
        self.owners = [feature.column for feature in self._features for _ in feature.names]
        self.names = [name for feature in self._features for name in feature.names]
        if bias:
            self.names.append("bias")

    def encode(self, block: Block) -> NDArray[np.float64]:
        """The features of a block before they are standardised, (rows, d)."""
        features = [feature.encode(block) for feature in self._features]
        if self.bias:
            features.append(np.ones((len(block), 1)))
        return np.concatenate(features, axis=1)


class StandardScaler:
    """Mean and standard deviation of `width` columns whose rows arrive in blocks.

    NaN stands for a missing value, of which a column's statistics take no account.

    Blocks are merged by their means and centred sums of squares, which avoids cancellation. Each
    column is divided by a power of two that is at least its largest magnitude, so that squares
    neither overflow nor underflow; this adds no rounding error. The smallest power is 2⁻¹⁰²¹, whose
    inverse is still a float64.

    Attributes:
        count: the number of rows so far.
        present: the number of values of each column that are not missing, (width,).
        low: the least value of each column, (width,).
        high: the greatest value of each column, (width,).

    Reference:
        Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
        variances", COMPSTAT 1982.
    """

    def __init__(self, width: int) -> None:
        self.count, self.present = 0, np.zeros(width, dtype=np.int64)
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self._exponent = np.zeros(width, dtype=np.int32)  # of the powers of two
        self._mean, self._squares = np.zeros(width), np.zeros(width)

    def add(self, rows: NDArray[np.float64]) -> None:
        """Adds rows, (n, width)."""
        if not len(rows):
            return
        there = ~np.isnan(rows)
        counts = there.sum(axis=0)
        self.low = np.fmin(self.low, np.fmin.reduce(rows, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(rows, axis=0))
        tiny = np.finfo(np.float64).tiny
        exponent = np.frexp(np.maximum(np.where(self.low > self.high, 0, self.magnitude), tiny))[1]
        growth, self._exponent = exponent - self._exponent, exponent
        self._mean = np.ldexp(self._mean, -growth)
        self._squares = np.ldexp(self._squares, -2 * growth)
        rows = rows * np.ldexp(1.0, -exponent)
        mean = _sum(rows, there) / np.maximum(counts, 1)
        total = np.maximum(self.present + counts, 1)
        shift = mean - self._mean
        self._squares += _sum((rows - mean) ** 2, there)
        self._squares += shift**2 * (self.present * counts / total)
        self._mean += shift * (counts / total)
        self.count, self.present = self.count + len(rows), self.present + counts

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns hold a single value, found without the variance, which is rounded."""
        return self.low >= self.high

    @property
    def magnitude(self) -> NDArray[np.float64]:
        """The largest absolute value of each column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def scale(self) -> NDArray[np.float64]:
        """The divisor: the standard deviation (ddof 0), or 1 where a column is constant."""
        deviation = np.ldexp(np.sqrt(self._squares / np.maximum(self.present, 1)), self._exponent)
        return np.where(self.constant, 1.0, deviation)

    @property
    def centre(self) -> NDArray[np.float64]:
        """The value to subtract: the mean, or the exact value of a constant column."""
        return np.where(self.constant, self.low, np.ldexp(self._mean, self._exponent))


def _sum(rows: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The sum of each column over the rows in which it is there."""
    whole: NDArray[np.float64] = rows.sum(axis=0, where=True if there.all() else there)
    return whole


def _is_float64(code: float) -> bool:
    try:
        return math.isfinite(code) and float(code) == code
    except OverflowError:
        return False


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
