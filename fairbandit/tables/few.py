"""Encodes a few rows by a loop over their columns, since pandas takes milliseconds for any table.

Both ways give the same features, to the last bit. Rows that deserve an error or a notice
of their own are left to the general way, which writes the messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np

from fairbandit.notices import listed, remark
from fairbandit.tables.cells import LARGEST
from fairbandit.tables.encoded import Column
from fairbandit.tables.labels import (
    JOINED,
    NUMBER,
    UNKNOWN,
    clean,
    group_label,
    normal,
    words_of,
)
from fairbandit.tables.scaling import GAP
from fairbandit.tables.types import EXACT

FEW_ROWS = 1_000
"""The largest number of rows that are encoded by a loop."""

_PLAIN = {str, int, float, bool, type(None)}
_SCALARS = {np.float64, np.int64, np.bool_, np.str_}
_WORDS = {"true": 1.0, "false": 0.0}

Labels = list[str | None]


class LeftOutError(Exception):
    """Some rows are left to the general way."""


class Encoded(NamedTuple):
    """The features of the columns by name, the columns with missing cells, and the labels."""

    features: Mapping[str, Sequence[Sequence[float]]]
    lacking: Sequence[str]
    labels: Labels


def with_columns(rows: Any, names: Sequence[str], where: str) -> Any:
    """Adds missing cells to a list of mappings none of which has some columns, with a notice."""
    if not (isinstance(rows, (list, tuple)) and all(isinstance(row, Mapping) for row in rows)):
        return rows
    absent = [name for name in names if not any(name in row for row in rows)]
    if not absent or not rows:
        return rows
    remark(f"{where}: no row has {listed([*map(repr, absent)])}: the group is {UNKNOWN}")
    return [{**row, **dict.fromkeys(absent)} for row in rows]


def plain_columns(rows: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """Returns columns of a few rows as lists of texts, numbers, truth values and None."""
    absent: Any = False
    if isinstance(rows, (list, tuple)):
        if not all(isinstance(row, Mapping) for row in rows[: FEW_ROWS + 1]):
            raise LeftOutError
        found: dict[str, list[Any]] = {
            name: [row.get(name) for row in rows[: FEW_ROWS + 1]] for name in names
        }
        absent = rows and any(
            name not in rows[0] and all(name not in row for row in rows) for name in names
        )
    elif isinstance(rows, Mapping):
        found, absent = dict(rows), not all(type(cells) is list for cells in rows.values())
    elif hasattr(rows, "iloc") and rows.columns.is_unique and len(rows) <= FEW_ROWS:
        series = {name: rows[name] for name in names if name in rows}
        found = {name: own.tolist() for name, own in series.items() if own.dtype != np.float32}
    else:
        raise LeftOutError
    lengths = {len(cells) for cells in found.values()}
    if (
        absent
        or not found.keys() >= {*names}
        or len(lengths) != 1
        or not 0 < min(lengths) <= FEW_ROWS
    ):
        raise LeftOutError
    return {name: _plain(found[name]) for name in names}


def _plain(cells: list[Any]) -> list[Any]:
    kinds = {*map(type, cells)}
    if kinds <= _PLAIN:
        return cells
    if not kinds <= _PLAIN | _SCALARS:
        raise LeftOutError
    return [cell.item() if type(cell) in _SCALARS else cell for cell in cells]


class FewRows:
    """Encodes a few rows with the columns of an encoder, whose arguments it takes."""

    def __init__(
        self,
        columns: Sequence[Column],
        groups: Sequence[str],
        missing: Sequence[str],
        decimal: str,
        fill: bool,
        unknown: Sequence[str] = (),
    ) -> None:
        self._columns, self._groups, self._fill = columns, tuple(groups), fill
        self._comma = decimal == ","
        self._number = re.compile(NUMBER.replace("[.]", f"[{decimal}]"))
        self._missing, self._words = frozenset(missing), words_of(unknown)
        spelled = [text for text in missing if re.fullmatch(NUMBER, text)]
        self._gaps = frozenset(map(float, spelled))
        joined = {JOINED.join(groups)} if len(groups) > 1 else set[str]()
        names = [column.name for column in columns if column.name not in joined]
        self.names = tuple(dict.fromkeys([*names, *groups]))
        self._features = {column.name: _by_code(column) for column in columns if column.codes}

    def encode(self, rows: Any, far: set[str]) -> Encoded:
        """Encodes rows; numbers outside the range of columns in `far` need no notice."""
        cells, lacking = plain_columns(rows, self.names), list[str]()
        features = dict[str, Sequence[Sequence[float]]]()
        labels = self._labels(cells)
        for column in self._columns:
            name, of_code = column.name, self._features.get(column.name)
            if of_code is None:
                values = self._numbers(cells[name])
                low, high = column.span
                if name not in far and any(
                    abs(value * 2 - low - high) > 3 * (high - low) for value in values
                ):
                    raise LeftOutError
                (mean,), (deviation,) = column.means, column.deviations
                block: list[tuple[float, ...]] = [
                    (GAP if isnan(v) else (v - mean) / deviation,) for v in values
                ]
                lacks = any(map(isnan, values))
            else:
                codes: Any = self._codes(column, cells, labels)
                try:
                    block = [of_code[code] for code in codes]
                except KeyError as error:
                    raise LeftOutError from error
                lacks = None in codes
            if lacks:
                if column.label or not self._fill:
                    raise LeftOutError
                lacking.append(name)
            features[name] = block
        return Encoded(features, lacking, labels)

    def labels(self, rows: Any) -> Labels:
        """Returns the labels of the groups of rows."""
        return self._labels(plain_columns(rows, self._groups))

    def _labels(self, cells: Mapping[str, list[Any]]) -> Labels:
        parts = [self._normal(cells[name]) for name in self._groups]
        if len(parts) < 2:
            return [*parts[0]] if parts else [None] * len(next(iter(cells.values()), []))
        return [*map(JOINED.join, zip(*parts, strict=True))]

    def _codes(
        self, column: Column, cells: Mapping[str, list[Any]], labels: Labels
    ) -> Sequence[str | float | None]:
        """Returns the code of each row, None if it is missing."""
        if column.label:
            joined = column.name == JOINED.join(self._groups)
            return labels if joined else [*self._normal(cells[column.name])]
        if isinstance(column.codes[0], str):
            return [self._text(cell) for cell in cells[column.name]]
        return [None if isnan(value) else value for value in self._numbers(cells[column.name])]

    def _normal(self, cells: list[Any]) -> list[str]:
        gone = [
            self._is_gap(cell) if type(cell) is float else self._text(cell) is None
            for cell in cells
        ]
        pairs = zip(gone, cells, strict=True)
        return [UNKNOWN if gap else normal(group_label(cell, self._words)) for gap, cell in pairs]

    def _text(self, cell: Any) -> str | None:
        """Returns the text of a cell that is not a float, or None if it is missing."""
        if type(cell) is str:
            text = clean(cell)
            text = text.lower() if text.lower() in _WORDS else text
        elif cell is None or (type(cell) is float and isnan(cell)):
            return None
        elif type(cell) is float:
            raise LeftOutError
        else:
            text = str(cell) if type(cell) is int else str(cell).lower()
        return None if text in self._missing else text

    def _is_gap(self, value: float) -> bool:
        return isnan(value) or value in self._gaps

    def _numbers(self, cells: list[Any]) -> list[float]:
        """Returns numbers, with NaN for a missing cell."""
        values = list[float]()
        for cell in cells:
            if type(cell) is float:
                value = nan if self._is_gap(cell) else cell
            elif (text := self._text(cell)) is None:
                value = nan
            elif text in _WORDS:
                value = _WORDS[text]
            elif self._number.fullmatch(text) and len(text) < 100:
                value = float(text.replace(",", ".") if self._comma else text)
                if self._is_gap(value):
                    value = nan
                elif abs(value) > EXACT:  # as a code, it is compared as a whole number
                    raise LeftOutError
            else:
                raise LeftOutError
            values.append(value)
        if any(abs(value) > LARGEST for value in values):
            raise LeftOutError
        return values


def _by_code(column: Column) -> dict[str | float | None, tuple[float, ...]]:
    """Returns the features of each code of a column, and of a missing cell."""
    forms = [
        code if column.label else clean(code) if isinstance(code, str) else float(code)
        for code in (*column.codes, *column.reference)
    ]
    found: dict[str | float | None, tuple[float, ...]] = {None: (GAP,) * len(column.codes)}
    for at, form in enumerate(forms):
        pairs = enumerate(zip(column.means, column.deviations, strict=True))
        found[form] = tuple((float(place == at) - mean) / std for place, (mean, std) in pairs)
    return found
