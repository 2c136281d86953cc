"""Encodes the cells of a table, and later raw rows, as standardised numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, brief
from fairbandit.notices import remark
from fairbandit.registry import lookup
from fairbandit.tables import cells
from fairbandit.tables.cells import Typed
from fairbandit.tables.encoded import (
    Category,
    Number,
    Product,
    fitted_column,
    multiplied,
    note_means,
    pairs_of,
    present,
    scales,
)
from fairbandit.tables.labels import JOINED, as_numbers, check_labels, is_missing
from fairbandit.tables.reading import read_rows
from fairbandit.tables.types import Marks

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second

Labels = list[str | None]
Cells = dict[str, list[Any]]


class Encoder:
    """Turns rows of a table into features, standardised by the table that it was fitted to.

    A number is one feature, and a category one indicator for each code. A feature x becomes
    (x − mean)/deviation; a feature that is constant in the table is only centred. Means and
    deviations leave out missing cells, which become 0, the mean. Products of the features of two
    columns may follow, standardised again. An `Agent` with `features=encoder` takes raw rows.

    `Encoder.from_table` makes an encoder, and `Encoder(**state)` the encoder of a `state`. With
    `fill`, missing cells and unknown codes of raw rows become the mean, with a notice; otherwise
    they are an error. Files of earlier versions hold `products` apart from the columns.

    Attributes:
        names: the names of the d features, such as `age`, `job=1`, `job=2`, `bias`.
        labels: the labels of the table's groups; empty if the group is not a feature.
        columns: the names of the columns that the encoder reads.
        products: the two columns of each product, by the name of the product.
        sources: the column or the product of each of the d features, or `bias`.
        ranges: the ends of each column of numbers, and whether all its numbers are whole.
        categories: the codes of each categorical column except the column of groups.

    >>> table = {"sex": ["f", "m"] * 2, "pay": [1, 2, 3, 4], "age": [20, 40, 20, 40]}
    >>> encoder = Encoder.from_table(table, group="sex", reward="pay")
    >>> encoder.names
    ('age', 'sex=f', 'sex=m', 'bias')
    >>> encoder.encode([{"age": 50, "sex": "f"}]).tolist()
    [[2.0, 1.0, -1.0, 1.0]]
    """

    def __init__(
        self,
        columns: Sequence[Any],
        bias: bool = False,
        fill: bool = True,
        decimal: str = ".",
        groups: Sequence[str] = (),
        missing: Sequence[str] = (),
        products: Sequence[Any] = (),
        labels: Sequence[str] = (),
        unknown: Sequence[str] = (),
    ) -> None:
        specs = [present(column) for column in (*columns, *products)]
        read = msgspec.convert(specs, list[Number | Category | Product])
        self._columns = [column for column in read if not isinstance(column, Product)]
        self._products = [column for column in read if isinstance(column, Product)]
        self.columns = tuple(column.name for column in self._columns)
        self.bias, self.fill, self.decimal = bias, fill, decimal
        self.groups, self.unknown = tuple(groups), tuple(unknown)
        self.missing = tuple(sorted(missing))
        self._places, self._far = dict[str, slice](), set[str]()
        self.products = dict[str, tuple[str, str]]()
        self.ranges = dict[str, tuple[Sequence[float], bool]]()
        self.categories = dict[str, Sequence[Any]]()
        names, sources, rows = list[str](), list[str](), list[tuple[float, ...]]()
        for column in self._columns:
            self._places[column.name] = slice(len(names), len(names) + len(column.features))
            span = 0.0, inf
            if isinstance(column, Number):
                span = column.low, column.high
                self.ranges[column.name] = [*span], column.whole
            elif not column.label:
                self.categories[column.name] = column.valid
            for name, mean, deviation in column.features:
                names.append(self._free(name) if isinstance(column, Category) else name)
                sources.append(column.name)
                rows.append((mean, deviation, *span))
        self._scales = np.array(rows).reshape(-1, 4).T  # means, deviations, and both ends
        for term in self._products:
            factors = product(*(names[self._places[name]] for name in (term.one, term.other)))
            every = zip(factors, term.means, term.deviations, strict=True)  # or raises
            names += [self._free(JOINED.join(pair)) for pair, *_ in every]
            name = self._free(JOINED.join((term.one, term.other)))
            self.products[name] = term.one, term.other
            sources += [name] * len(term.means)
        of_bias = [self._free("bias")] * bias
        self.names, self.sources = (*names, *of_bias), (*sources, *of_bias)
        labelled = {c.name: c for c in self._columns if isinstance(c, Category) and c.label}
        codes = [code for column in labelled.values() for code in column.codes]
        ordered = self.groups if len(labelled) > 1 else labelled
        self._labelled = [labelled[name] for name in ordered]
        self.labels = tuple(labels or map(str, codes))

    @classmethod
    def from_table(cls, data: Any, **parameters: Any) -> Self:
        """Returns the encoder of an environment `table`, which gives agents the same features.

        Args:
            data: a table, as for `fairbandit.read_table`.
            parameters: the parameters of the environment, such as `group`, `reward`, `columns`,
                `missing`; its errors are raised.
        """
        # no pool is drawn, so none needs a notice; but group_size applies to some pools only
        pools = {} if "group_size" in parameters else {"pool": "random"}
        encoder: Self = (
            lookup("environment", "table").from_data(data, **(pools | parameters)).encoder
        )
        return encoder

    @classmethod
    def fitted(
        cls,
        columns: Mapping[str, Any],
        source: pd.DataFrame,
        group: Collection[str] = (),
        products: Any = None,
        **options: Any,
    ) -> Self:
        """Returns an encoder with the means and deviations of a table.

        `columns` has the specification of each column, with the codes of categories; the cells of
        the columns in `group` are labels. `options` are further arguments of the encoder.
        """
        fitted: list[Any] = [
            fitted_column(source, name, spec, name in group) for name, spec in columns.items()
        ]
        options |= {"decimal": cells.about(source).decimal, "missing": cells.about(source).missing}
        encoder = cls(fitted, **options)
        if pairs := pairs_of(products, {c.name: len(c.features) for c in encoder._columns}):
            features = encoder.encode_table(source)
            for pair in pairs:
                block = multiplied(*(features[:, encoder._places[name]] for name in pair))
                fitted.append(Product(*pair, *scales(block)))
            encoder = cls(fitted, **options)
        return encoder

    def _free(self, name: str) -> str:
        """Returns the name of a derived feature, in brackets where a column has this name."""
        return self._free(f"({name})") if name in self.columns else name

    def decode(
        self, features: NDArray[np.float64], missing: Collection[str] = ()
    ) -> dict[str, Any]:
        """Returns the number or the code of each column, from the features of a row, (d,).

        The numbers of the `missing` columns are NaN; missing categories and unknown codes are None.
        Several reference codes are a text such as `0 or 4`, and products are texts.
        """
        values, plain = dict[str, Any](), self._values(features)
        for column in self._columns:
            at = self._places[column.name]
            values[column.name] = column.decode(plain[at], features[at], column.name in missing)
        for name, (first, second) in self.products.items():
            values[name] = JOINED.join(map(str, (values[first], values[second])))
        return values | ({self._free("bias"): 1.0} if self.bias else {})

    def _values(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the features of columns before standardisation."""
        means, deviations, *_ = self._scales
        return features[..., : len(means)] * deviations + means

    def moved(self, features: NDArray[np.float64], name: str, value: Any) -> NDArray[np.float64]:
        """Returns the features of a row, (d,), with another number or code in a column."""
        (column,) = (column for column in self._columns if column.name == name)
        block = [value]
        if isinstance(column, Category):
            block = [code == value for code in column.codes]
        at, moved = self._places[name], features[None].copy()
        means, deviations = self._scales[:2, at]
        moved[:, at] = (np.array(block, np.float64) - means) / deviations
        self._multiply(moved)
        return moved[0]

    def _multiply(self, features: NDArray[np.float64]) -> None:
        at = sum(len(column.features) for column in self._columns)
        for term in self._products:
            block = multiplied(
                *(features[:, self._places[name]] for name in (term.one, term.other))
            )
            features[:, at : at + len(term.means)] = (block - term.means) / term.deviations
            at += len(term.means)

    def __eq__(self, other: object) -> bool:
        """Whether both encoders make the same features of the same rows."""
        return isinstance(other, Encoder) and self._made() == other._made()

    def _made(self) -> tuple[Any, ...]:
        anywhere = {"low": 0.0, "high": 0.0, "whole": False}
        columns = [replace(c, **anywhere) if isinstance(c, Number) else c for c in self._columns]
        return columns, self._products, self.bias, self.groups, self.unknown

    __hash__ = object.__hash__

    def state(self) -> dict[str, Any]:
        """Returns the arguments of the encoder as plain data, which JSON holds exactly."""
        columns = msgspec.to_builtins([*self._columns, *self._products])
        options = {key: getattr(self, key) for key in ("bias", "fill", "decimal")}
        lists = {key: [*getattr(self, key)] for key in ("groups", "missing", "labels", "unknown")}
        return {"columns": columns, **options, **lists}

    def labels_in(self, features: NDArray[np.float64]) -> list[str | None]:
        """Returns the label in the features of each row, (n, d); None without a label."""
        values, parts = self._values(features), list[Any]()
        for column in self._labelled:
            at = self._places[column.name]
            parts.append(column.codes_in(values[:, at], features[:, at]))
        rows = zip(*parts, strict=True) if parts else [(None,)] * len(features)
        return [None if None in row else JOINED.join(row) for row in rows]

    def encode_table(self, table: Typed) -> NDArray[np.float64]:
        """Returns the features of a typed table, (n, d), in which unknown codes are an error."""
        return self._encoded(cells.with_unknown(table, self.groups, self.unknown), raw=False)

    def encode(
        self, rows: Any, groups: Sequence[Any] | None = None, where: str = "the pool"
    ) -> NDArray[np.float64]:
        """Returns the features of each row, (n, d).

        Args:
            rows: a DataFrame, an Arrow table, a mapping from names to columns, or a list of rows,
                each a mapping; other columns are ignored.
            groups: the labels of the rows' groups, (n,), to be compared with the column of groups,
                if this is a feature.
            where: the name of the rows in messages.

        Raises:
            FairbanditError: a column is missing, a cell is invalid, or a label contradicts its row.
        """
        features, labels, _ = self.labelled(rows, where)
        if groups is not None and self.labels:
            check_labels(groups, labels, JOINED.join(self.groups), self.unknown)
        return features

    def labelled(
        self, rows: Any, where: str = "the pool", needed: bool = False
    ) -> tuple[NDArray[np.float64], Labels, Cells]:
        """Returns the features of each row, (n, d), its label, and the cells by column.

        A label is None if the group is not a feature, which is an error if labels are `needed`.
        """
        if needed and not self.labels:
            raise FairbanditError(
                "groups: expected the labels of the candidates, since the group is not among the "
                "features of the encoder"
            )
        names = [name for name in self.columns if name != JOINED.join(self.groups)]
        names = [*dict.fromkeys([*names, *self.groups])]
        marks = Marks(self.decimal, None, self.missing)
        read = read_rows(rows, names, self.groups, marks, where)
        table = cells.with_unknown(read, self.groups, self.unknown)
        cells.need(table, names)
        labels: Labels = [None] * len(table)
        if self.labels:
            forms = cells.labels(table, JOINED.join(self.groups)).tolist()
            labels = [*as_numbers(forms, self.labels)]
        rows_of = {name: [*read[name]] for name in names}
        if not isinstance(read, cells.Rows):
            rows_of = {n: [None if is_missing(c) else c for c in own] for n, own in rows_of.items()}
        return self._encoded(table), labels, rows_of

    def _encoded(self, table: Typed, raw: bool = True) -> NDArray[np.float64]:
        """Returns features; `raw` rows get notices, and the mean for unknown codes with `fill`."""
        cells.need(table, self.columns)
        features = np.ones((len(table), len(self.names)))
        for column in self._columns:
            features[:, self._places[column.name]] = column.block(table, raw and self.fill)
        means, deviations, low, high = self._scales
        blocks = features[:, : len(means)]
        lacking = np.isnan(blocks)
        far = np.abs(blocks * 2 - low - high) > 3 * (high - low)
        for column in self._columns if raw and (lacking.any() or far.any()) else ():
            at = self._places[column.name].start
            if far[:, at].any() and column.name not in self._far:
                self._far.add(column.name)
                value, *span = map(brief, (blocks[far[:, at], at][0], low[at], high[at]))
                remark(
                    f"{cells.name_of(table)}, column {column.name!r}: {value} is far outside "
                    f"{span[0]} to {span[1]}, the numbers of the table"
                )
            if lacking[:, at].any():
                note_means(table, column, lacking[:, at], self.fill)
        blocks -= means
        blocks /= deviations
        blocks[lacking] = 0.0
        self._multiply(features)
        return features
