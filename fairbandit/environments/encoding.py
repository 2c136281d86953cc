"""Features of a table's rows: numbers as they are, categories one-hot by their code book."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.reading import Block, canonical, listed
from fairbandit.errors import FairbanditError

_LEAST_EXPONENT = -1021
"""2¹⁰²¹ is a float64; smaller values than 2⁻¹⁰²¹ are measured in that unit too."""

_SPEC = "null (a number), a list of codes, or {codes: [...], reference: [...]}"


@dataclass(frozen=True)
class Feature:
    """One column of a table as features.

    Attributes:
        column: its name in the table.
        codes: the codes that get a one-hot column each, in order; None for a number.
        reference: codes that are valid and get no column.
    """

    column: str
    codes: tuple[float | str, ...] | None = None
    reference: tuple[float | str, ...] = ()

    @classmethod
    def parse(cls, column: str, spec: Any) -> Feature:
        """A feature from plain data: null, a list of codes, or a mapping with `reference` too.

        Raises:
            FairbanditError: another kind of data, or codes that are empty, repeated or of mixed
                types.
        """
        if spec is None:
            return cls(column)
        if isinstance(spec, Mapping):
            unknown = sorted(set(map(str, spec)) - {"codes", "reference"})
            if unknown or "codes" not in spec:
                raise _spec_error(column, spec)
            codes, reference = spec["codes"], spec.get("reference", [])
        else:
            codes, reference = spec, []
        if not (_is_list(codes) and _is_list(reference)) or not codes:
            raise _spec_error(column, spec)
        known = [*codes, *reference]
        numeric = [isinstance(code, (int, float)) and not isinstance(code, bool) for code in known]
        if not all(numeric) and not all(isinstance(code, str) for code in known):
            raise FairbanditError(
                f"environment.columns.{column}: codes are all numbers or all texts (put a text "
                f"in quotes), got {known}"
            )
        unfit = [code for code in known if not isinstance(code, str) and not _is_float64(code)]
        if unfit:
            raise FairbanditError(
                f"environment.columns.{column}: a code must be a number that float64 holds, or a "
                f"text; got {unfit[0]}"
            )
        if len({_spelled(code) for code in known}) != len(known):
            raise FairbanditError(f"environment.columns.{column}: a code stands twice in {known}")
        return cls(column, tuple(codes), tuple(reference))

    @property
    def names(self) -> list[str]:
        """The names of the feature's columns: `age`, or `job=1`, `job=2`, …"""
        if self.codes is None:
            return [self.column]
        return [f"{self.column}={code}" for code in self.codes]

    def fill(self, block: Block, out: NDArray[np.float64]) -> None:
        """Writes the feature of a block's rows.

        Args:
            block: the rows, n of them.
            out: (n, number of columns), zeros.

        Raises:
            FairbanditError: a cell that is no number, or a code outside the code book.
        """
        if self.codes is None:
            out[:, 0] = block.numbers(self.column)
            return
        places = self._places(block, [*self.codes, *self.reference])
        rows = np.flatnonzero(places < len(self.codes))
        out[rows, places[rows]] = 1.0

    def _places(self, block: Block, book: list[float | str]) -> NDArray[np.int64]:
        """The place of each row's code in the code book."""
        cells: list[Any]
        if isinstance(book[0], str):
            known = {canonical(str(code)): place for place, code in enumerate(book)}
            cells, rows = block.texts(self.column, known)
            places = np.array([known.get(cell, -1) for cell in cells], dtype=np.int64)
        else:
            values, rows = np.unique(block.numbers(self.column), return_inverse=True)
            cells = values.tolist()
            numbers = {float(code): place for place, code in enumerate(book)}
            places = np.array([numbers.get(cell, -1) for cell in cells], dtype=np.int64)
        unknown = places[rows] < 0
        if unknown.any():
            offset = int(unknown.argmax())
            codes, got = listed([repr(code) for code in book]), cells[rows[offset]]
            problem = f"expected one of the codes {codes}; got {got!r}"
            raise block.error(self.column, offset, problem)
        return places[rows]


class Encoding:
    """All features of a table's rows, in order, and a last column of ones if asked for.

    Args:
        columns: a spec for each of the table's columns, in order; see `Feature.parse`.
        bias: adds the column of ones.

    Attributes:
        sources: the table's columns.
        names: the features' names, `bias` being the last one's; d of them.

    Raises:
        FairbanditError: a spec that is none, or no column at all.

    >>> Encoding({"age": None, "job": [1, 2]}, bias=True).names
    ['age', 'job=1', 'job=2', 'bias']
    """

    def __init__(self, columns: Mapping[str, Any], bias: bool) -> None:
        if not isinstance(columns, Mapping):
            raise FairbanditError(
                f"environment.columns must be a mapping {{column: spec}}, a spec being {_SPEC}; "
                f"got {columns!r}"
            )
        self._features = [Feature.parse(str(name), spec) for name, spec in columns.items()]
        if not self._features:
            raise FairbanditError(
                f"environment.columns is empty; expected {{column: spec}}, a spec being {_SPEC}"
            )
        self.bias = bias
        self.sources = [feature.column for feature in self._features]
        self.names = [name for feature in self._features for name in feature.names]
        if bias:
            self.names.append("bias")

    def column(self, at: int) -> str:
        """The table's column that a feature comes from; no column for the bias."""
        widths = [len(feature.names) for feature in self._features]
        owner = int(np.searchsorted(np.cumsum(widths), at, side="right"))
        return self._features[owner].column

    def encode(self, block: Block) -> NDArray[np.float64]:
        """A block's features, not yet standardised: (rows, d)."""
        out = np.zeros((len(block), len(self.names)))
        start = 0
        for feature in self._features:
            width = len(feature.names)
            feature.fill(block, out[:, start : start + width])
            start += width
        if self.bias:
            out[:, -1] = 1.0
        return out


class Moments:
    """Mean and standard deviation of columns, from rows that arrive in blocks.

    Blocks are merged by their means and centred sums of squares, which cancels nothing. Each column
    is measured in a unit of its own, a power of two no smaller than its values: no square overflows
    or vanishes, and nothing is rounded that would not be without it.

    Args:
        width: the number of columns.

    Attributes:
        count: the number of rows so far.
        low: the least value of each column, (width,).
        high: the greatest value of each column, (width,).

    Reference:
        Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
        variances", COMPSTAT 1982.
    """

    def __init__(self, width: int) -> None:
        self.count = 0
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self._exponent = np.full(width, _LEAST_EXPONENT)  # of the units
        self._mean = np.zeros(width)
        self._squares = np.zeros(width)

    def add(self, rows: NDArray[np.float64]) -> None:
        """Takes in some rows, (n, width)."""
        if not len(rows):
            return
        self.low = np.minimum(self.low, rows.min(axis=0))
        self.high = np.maximum(self.high, rows.max(axis=0))
        self._widen()
        rows = rows * np.ldexp(1.0, -self._exponent)
        mean, total = rows.mean(axis=0), self.count + len(rows)
        shift = mean - self._mean
        self._squares += ((rows - mean) ** 2).sum(axis=0)
        self._squares += shift**2 * (self.count * len(rows) / total)
        self._mean += shift * (len(rows) / total)
        self.count = total

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns hold one value; exact, where a rounded variance need not be 0."""
        return self.low >= self.high

    @property
    def magnitude(self) -> NDArray[np.float64]:
        """The largest absolute value of each column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def scale(self) -> NDArray[np.float64]:
        """What to divide by: the standard deviation (ddof 0), or 1 where a column is constant."""
        deviation = np.ldexp(np.sqrt(self._squares / max(self.count, 1)), self._exponent)
        return np.where(self.constant, 1.0, deviation)

    @property
    def centre(self) -> NDArray[np.float64]:
        """What to subtract: the mean, or the very value of a constant column."""
        return np.where(self.constant, self.low, np.ldexp(self._mean, self._exponent))

    def _widen(self) -> None:
        """Moves on to larger units where a column has outgrown its own."""
        magnitude = self.magnitude
        needed = np.where(magnitude > 0, np.frexp(magnitude)[1], _LEAST_EXPONENT)
        exponent = np.maximum(needed, self._exponent)
        growth = exponent - self._exponent
        self._mean = np.ldexp(self._mean, -growth)
        self._squares = np.ldexp(self._squares, -2 * growth)
        self._exponent = exponent


def _spelled(code: float | str) -> float | str:
    """A code as cells are compared with it."""
    return canonical(code) if isinstance(code, str) else code


def _is_float64(code: float) -> bool:
    try:
        return math.isfinite(code) and float(code) == code
    except OverflowError:
        return False


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _spec_error(column: str, spec: Any) -> FairbanditError:
    return FairbanditError(f"environment.columns.{column}: expected {_SPEC}; got {spec!r}")
