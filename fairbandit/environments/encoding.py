"""Features of a table's rows: numbers as they are, categories one-hot by their code book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairbandit.environments.reading import Block, listed
from fairbandit.errors import FairbanditError

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
        if len(set(known)) != len(known):
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
        book = [*self.codes, *self.reference]
        if isinstance(book[0], str):
            cells, kind = block.texts(self.column), pa.string()
        else:
            cells, kind = pa.array(block.numbers(self.column)), pa.float64()
        found = pc.fill_null(pc.index_in(cells, pa.array(book, kind)), -1)
        places = found.to_numpy(zero_copy_only=False)
        unknown = places < 0
        if unknown.any():
            offset = int(unknown.argmax())
            codes = listed([repr(code) for code in book])
            got = cells[offset].as_py()
            problem = f"expected one of the codes {codes}; got {got!r}"
            raise block.error(self.column, offset, problem)
        rows = np.flatnonzero(places < len(self.codes))
        out[rows, places[rows]] = 1.0


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

    Blocks are merged by their means and centred sums of squares, which cancels nothing.

    Args:
        width: the number of columns.

    Reference:
        Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
        variances", COMPSTAT 1982.
    """

    def __init__(self, width: int) -> None:
        self.count = 0
        self.mean = np.zeros(width)
        self._squares = np.zeros(width)
        self._low, self._high = np.full(width, np.inf), np.full(width, -np.inf)

    def add(self, rows: NDArray[np.float64]) -> None:
        """Takes in some rows, (n, width)."""
        if not len(rows):
            return
        mean, total = rows.mean(axis=0), self.count + len(rows)
        shift = mean - self.mean
        self._squares += ((rows - mean) ** 2).sum(axis=0)
        self._squares += shift**2 * (self.count * len(rows) / total)
        self.mean += shift * (len(rows) / total)
        self._low = np.minimum(self._low, rows.min(axis=0))
        self._high = np.maximum(self._high, rows.max(axis=0))
        self.count = total

    @property
    def scale(self) -> NDArray[np.float64]:
        """What to divide by: the standard deviation (ddof 0), or 1 where a column is constant."""
        constant = self._low >= self._high  # exact, where a rounded variance need not be 0
        return np.where(constant, 1.0, np.sqrt(self._squares / max(self.count, 1)))

    @property
    def centre(self) -> NDArray[np.float64]:
        """What to subtract: the mean, or the very value of a constant column."""
        return np.where(self._low >= self._high, self._low, self.mean)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _spec_error(column: str, spec: Any) -> FairbanditError:
    return FairbanditError(f"environment.columns.{column}: expected {_SPEC}; got {spec!r}")
