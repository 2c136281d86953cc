"""Encodes the cells of a table, and later raw rows, as standardised numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import isfinite
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, type_of
from fairbandit.notices import remark
from fairbandit.registry import lookup
from fairbandit.tables import cells
from fairbandit.tables.columns import codes_and_reference
from fairbandit.tables.encoded import FILLED, Column, Product, encoded, standardised
from fairbandit.tables.few import FewRows, LeftOutError, with_columns
from fairbandit.tables.labels import JOINED, check_labels
from fairbandit.tables.products import multiplied, pairs_of
from fairbandit.tables.reading import read_table
from fairbandit.tables.scaling import scales

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second


class Encoder:
    """Turns rows of a table into features, standardised by the table that it was fitted to.

    A number is one feature, and a category one indicator for each code. A feature x becomes
    (x − mean)/deviation; a feature that is constant in the table is only centred. Means and
    deviations leave out missing cells, which become −0.0, the mean with the sign of a gap. Products
    of the features of two columns, such as `age × hours`, may follow, standardised again.

    `Encoder.from_table` makes an encoder, and an `Agent` with `features=encoder` takes raw rows.

    Args:
        columns: the columns of features, in order, as `state` returns them.
        bias: adds a last feature that is always 1.
        fill: if true, missing cells and unknown codes of raw rows become the mean, −0.0, with a
            notice; otherwise they are an error.
        decimal: the decimal mark of numbers that are texts.
        groups: the columns of the group, if it is a feature.
        missing: the texts that are missing cells in raw rows.
        products: the products of two columns, in order, as `state` returns them.
        labels: the labels of the table's groups; by default the codes of the column of labels.
        unknown: labels of people whose group is unknown, beside missing cells and `unknown`.

    Attributes:
        names: the names of the d features, such as `age`, `job=1`, `job=2`, `bias`.
        labels: the labels of the table's groups; none if the group is not a feature.

    >>> table = {"sex": ["f", "m"] * 2, "pay": [1, 2, 3, 4], "age": [20, 40, 20, 40]}
    >>> encoder = Encoder.from_table(table, group="sex", reward="pay")
    >>> encoder.names
    ('age', 'sex=f', 'sex=m', 'bias')
    >>> encoder([{"age": 50, "sex": "f"}]).tolist()
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
        self._columns = [Column(*column) for column in columns]
        self.bias, self.fill, self.decimal = bias, fill, decimal
        self.groups, self.missing, self.unknown = tuple(groups), tuple(missing), tuple(unknown)
        self._products, names = [Product(*product) for product in products], list[str]()
        self._places, self._far = dict[str, slice](), set[str]()
        for name, _, codes, _, *scaling, _, _ in self._columns:
            features = [self._free(f"{name}={code}") for code in codes] or [name]
            self._places[name] = slice(len(names), len(names) + len(features))
            names += [feature for feature, *_ in zip(features, *scaling, strict=True)]  # or raises
        for one, other, *scaling in self._products:
            pairs = product(*(names[self._places[column]] for column in (one, other)))
            names += [
                self._free(JOINED.join(pair)) for pair, *_ in zip(pairs, *scaling, strict=True)
            ]
        if any([*map(isfinite, column.span)] not in ([], [True] * 2) for column in self._columns):
            raise ValueError("the span of a column of numbers has two ends")
        self.names = (*names, *[self._free("bias")] * bias)
        own = {column.name: column for column in self._columns if column.label}
        codes = [code for column in own.values() for code in column.codes]
        names_group = {*own} in ({*self.groups}, {JOINED.join(self.groups)} - {""})
        names_group |= not own and self._places.keys() >= {*self.groups}  # a listed category
        if not (names_group and all(isinstance(code, str) for code in codes)):
            raise ValueError("the columns of labels are not the columns of the group, with texts")
        self._labelled = [own[name] for name in (self.groups if len(own) > 1 else own)]
        self._few = FewRows(self._columns, self.groups, self.missing, decimal, fill, unknown)
        self.labels = tuple(labels or codes)

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

        Args:
            columns: the specification of each column, with the codes of categories.
            source: the table.
            group: the columns whose cells are labels; `1.0` and `1` are the same label.
            products: None, `all`, or a list of pairs of columns whose products are features.
            options: further arguments of an `Encoder`.
        """
        fitted = []
        for name, spec in columns.items():
            column = Column(name, name in group, *codes_and_reference(spec))
            block = encoded(source, column)
            if np.isnan(block).all(axis=0).any():
                raise FairbanditError(f"{cells.name_of(source)}, column {name!r}: no cell is left")
            span = [] if column.codes else [float(np.nanmin(block)), float(np.nanmax(block))]
            whole = bool(span) and not (block % 1 > 0).any()
            fitted.append(Column(*column[:4], *scales(block), span, whole))
        options |= {"decimal": cells.about(source).decimal, "missing": cells.about(source).missing}
        own = cls(fitted, **options)
        pairs = pairs_of(products, {column.name: len(column.means) for column in fitted})
        if not pairs:
            return own
        features, scaled = own.encode_table(source), list[Product]()
        for pair in pairs:
            block = multiplied(*(features[:, own._places[column]] for column in pair))
            scaled.append(Product(*pair, *scales(block)))
        return cls(fitted, products=scaled, **options)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that the encoder reads."""
        return tuple(column.name for column in self._columns)

    def _free(self, name: str) -> str:
        """Returns the name of what is made of columns, in brackets where a column has this name."""
        return self._free(f"({name})") if name in self.columns else name

    @property
    def products(self) -> dict[str, tuple[str, str]]:
        """The two columns of each product, by the name that it has among the columns."""
        pairs = [(own.one, own.other) for own in self._products]
        return {self._free(JOINED.join(pair)): pair for pair in pairs}

    @property
    def sources(self) -> tuple[str, ...]:
        """The column of each of the d features, or `bias`."""
        columns = [column.name for column in self._columns for _ in column.means]
        pairs = zip(self.products, self._products, strict=True)
        columns += [name for name, own in pairs for _ in own.means]
        return (*columns, *[self._free("bias")] * self.bias)

    @property
    def ranges(self) -> dict[str, tuple[Sequence[float], bool]]:
        """The ends of each column of numbers in the table, and whether all numbers are whole."""
        return {own.name: (own.span, own.whole) for own in self._columns if not own.codes}

    @property
    def categories(self) -> dict[str, Sequence[Any]]:
        """The codes of each column of categories, but for the groups."""
        columns = [column for column in self._columns if column.codes and not column.label]
        return {column.name: [*column.codes, *column.reference] for column in columns}

    def decoded(self, features: NDArray[np.float64]) -> dict[str, Any]:
        """Returns the number or the code of each column, from the features of a row, (d,).

        Missing numbers are NaN; missing categories and unknown codes are None. Numbers are rounded
        to the digits that standardisation preserves. A category none of whose codes is present is
        the reference code, or for several a text such as `0 or 4`. Products are texts.
        """
        values = dict[str, Any]()
        for column in self._columns:
            values[column.name] = column.value_in(features[self._places[column.name]])
        for name, (one, other) in self.products.items():
            values[name] = JOINED.join(map(str, (values[one], values[other])))
        return values | ({self._free("bias"): 1.0} if self.bias else {})

    def moved(self, features: NDArray[np.float64], name: str, value: Any) -> NDArray[np.float64]:
        """Returns the features of a row, (d,), with another number or code in a column."""
        (column,) = (column for column in self._columns if column.name == name)
        moved = features[None].copy()
        block = np.array([code == value for code in column.codes] or value, np.float64)
        moved[:, self._places[name]] = (block - column.means) / column.deviations
        self._multiply(moved)
        return moved[0]

    def _multiply(self, features: NDArray[np.float64]) -> None:
        """Computes the products in features (n, d), from the features of columns."""
        at = sum(len(column.means) for column in self._columns)
        for one, other, means, deviations in self._products:
            own = multiplied(features[:, self._places[one]], features[:, self._places[other]])
            features[:, at : at + len(means)] = (own - means) / deviations
            at += len(means)

    def __eq__(self, other: object) -> bool:
        """Whether both encoders make the same features of the same rows."""
        if not isinstance(other, Encoder):
            return False
        columns, others = ([column[:6] for column in one._columns] for one in (self, other))
        keys = ("_products", "bias", "groups", "unknown")
        return columns == others and all(getattr(self, k) == getattr(other, k) for k in keys)

    __hash__ = object.__hash__

    def state(self) -> dict[str, Any]:
        """Returns the arguments of the encoder as plain data, which JSON holds exactly."""
        columns = [[*own[:2], *map(list, own[2:7]), own.whole] for own in self._columns]
        options = {key: getattr(self, key) for key in ("bias", "fill", "decimal")}
        lists = {"groups": [*self.groups], "missing": [*self.missing]}
        told = self.groups and len(self._labelled) != 1
        lists |= {"labels": [*self.labels]} if told else {}
        lists |= {"unknown": [*self.unknown]} if self.unknown else {}
        state = {"columns": columns, **options, **lists}
        return state | ({"products": [*map(list, self._products)]} if self._products else {})

    def labels_of(self, rows: Any, where: str = "the pool") -> list[str | None]:
        """Returns the labels of the groups of raw rows, (n,).

        Messages call the rows `where`.

        Raises:
            FairbanditError: the group is not a feature, or the rows lack its column.
        """
        self._need_labels()
        rows = with_columns(rows, self.groups, where)
        with suppress(LeftOutError):
            return self._few.labels(rows)
        cells.need(source := self._source(rows, where), [name := JOINED.join(self.groups)])
        return [*cells.labels(source, name)]

    def _need_labels(self) -> None:
        if not self.labels:
            raise FairbanditError(
                "groups: expected the labels of the candidates, since the group is not among the "
                "features of the encoder"
            )

    def labels_in(self, features: NDArray[np.float64]) -> list[str | None]:
        """Returns the label that the features of each row, (n, d), hold.

        The label is None if the group is not a feature, or if the row has the features of no single
        code, as with the table's mean in place of a missing cell.
        """
        blocks = [(column, features[:, self._places[column.name]]) for column in self._labelled]
        parts = [column.codes_in(block) for column, block in blocks]
        rows = zip(*parts, strict=True) if parts else [(None,)] * len(features)
        return [None if None in row else JOINED.join(row) for row in rows]

    def _source(self, rows: Any, where: str) -> pd.DataFrame:
        """Returns raw rows as a typed table, with the column of intersectional groups."""
        if isinstance(rows, (str, PathLike)):
            expected = "a DataFrame, an Arrow table or rows"
            raise FairbanditError(f"{where}: expected {expected}, got {type_of(rows)}")
        read = read_table(rows, missing_values=self.missing, decimal=self.decimal, name=where)
        return cells.with_unknown(read, self.groups, self.unknown)

    def encode_table(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """Returns the features of a typed table, (n, d), in which unknown codes are an error."""
        known = cells.with_unknown(table, self.groups, self.unknown)
        features, _ = self._labelled_table(known, raw=False)
        self._multiply(features)
        return features

    def __call__(
        self, rows: Any, groups: Sequence[Any] | None = None, where: str = "the pool"
    ) -> NDArray[np.float64]:
        """Returns the features of each row, (n, d); a few rows are encoded without pandas.

        Args:
            rows: a DataFrame, an Arrow table, a mapping from names to columns, or a list of rows,
                each a mapping; other columns are ignored.
            groups: the labels of the rows' groups, (n,), to be compared with the column of groups,
                if this is a feature.
            where: the name of the rows in messages.

        Raises:
            FairbanditError: a column is missing, a cell is invalid, or a label contradicts its row.
        """
        features, labels = self.labelled(rows, where)
        if groups is not None and self.labels:
            check_labels(groups, labels, JOINED.join(self.groups), self.unknown)
        return features

    def labelled(
        self, rows: Any, where: str = "the pool", needed: bool = False
    ) -> tuple[NDArray[np.float64], list[str | None]]:
        """Returns the features of each row, (n, d), and its label.

        The label is None if the group is not a feature, which is an error if labels are `needed`.
        """
        rows = with_columns(rows, self.groups, where)
        if needed:
            self._need_labels()
        features: NDArray[np.float64]
        try:
            blocks, lacking, labels = self._few.encode(rows, self._far)
            features = np.ones((len(labels), len(self.names)))
            for name, block in blocks.items():
                features[:, self._places[name]] = block
            for name in lacking:
                remark(f"{where}, column {name!r}: {FILLED}")
        except LeftOutError:
            features, labels = self._labelled_table(self._source(rows, where))
        self._multiply(features)
        return features, labels

    def _labelled_table(
        self, source: pd.DataFrame, raw: bool = True
    ) -> tuple[NDArray[np.float64], list[str | None]]:
        """Returns the features of columns, in which those of products are 1, and the labels."""
        cells.need(source, self.columns)
        features = np.ones((len(source), len(self.names)))
        for column in self._columns:
            far = self._far if raw else None
            features[:, self._places[column.name]] = standardised(source, column, self.fill, far)
        if not self.labels:
            return features, [None] * len(source)
        return features, [*cells.labels(source, JOINED.join(self.groups))]
