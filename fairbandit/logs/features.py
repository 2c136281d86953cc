"""The columns of a log's table that are features, and their encoder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.cells import name_of
from fairbandit.tables.columns import CATEGORY, FEW, chosen_columns, resolve_columns
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.labels import JOINED, NUMBER
from fairbandit.tables.reading import texts_of

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used, since that takes a third of a second


def encoder_of(
    source: pd.DataFrame,
    taken: Sequence[str],
    groups: Sequence[str],
    features: Any,
    exclude: list[str],
    products: Any,
    unknown: Sequence[str],
) -> Encoder:
    """Returns the encoder of a table's groups and of its features, which have no other role."""
    chosen = chosen_columns(features) if isinstance(features, (Mapping, str)) else None
    names = [*(chosen or texts_of("features", features))]
    cells.need(source, names)
    roles = {*taken} - {*(groups if chosen else ())}
    if wrong := [repr(name) for name in names if name in roles]:
        raise FairbanditError(f"features: {listed(wrong)} have another role in the log")
    if features is not None:
        taken = [*taken, *(name for name in cells.about(source).columns if name not in names)]
    remedy = "features=[…] chooses others" if features is None else ""
    specs, left_out = resolve_columns(source, chosen, taken, exclude, remedy)
    if wrong := [f"{name!r} ({left_out[name]})" for name in names if name in left_out]:
        raise FairbanditError(f"{name_of(source)}: {listed(wrong)} cannot be features")
    columns = {name: specs[name] for name in names or specs if name in specs}
    of_groups, _ = resolve_columns(source, dict.fromkeys(groups, CATEGORY), (), exclude)
    options: dict[str, Any] = {"products": products, "bias": True}
    if len(of_groups) < len(groups):  # the features do not hold the whole label
        return Encoder.fitted({**columns, **of_groups}, source, **options)
    columns |= {name: _codes(source, name) for name in groups}
    labels = _codes(source, JOINED.join(groups))
    options |= {"groups": groups, "labels": labels, "unknown": unknown}
    return Encoder.fitted(columns, source, groups, **options)


def _codes(source: pd.DataFrame, name: str) -> list[str]:
    """Returns the labels in a column; if all are numbers, by value."""
    labels = {*cells.labels(source, name).tolist()}
    numbers = all(re.fullmatch(NUMBER, label) for label in labels)
    return sorted(labels, key=float if numbers else None)


def outcomes(source: pd.DataFrame, picked: str, taken: Sequence[str]) -> list[str]:
    """Returns the columns that repeat the picks or are known of picks alone, as outcomes are.

    Numbers that only picks distinguish, such as outcomes with 0 for other candidates, are noted.
    """
    picks, others = cells.numbers(source, picked), [name for name in source if name not in taken]
    partial = [name for name in others if (cells.gaps(source, name) == (picks == 0)).all()]
    numeric = [name for name in others if name not in partial and cells.is_number(source, name)]
    columns, rest = {name: cells.numbers(source, name) for name in numeric}, picks == 0
    copies = [name for name, values in columns.items() if np.array_equal(values, picks)]
    filled = [
        repr(name)
        for name, values in columns.items()
        if name not in copies and rest.sum() >= FEW and np.ptp(values[rest]) == 0 < np.ptp(values)
    ]
    if filled:
        remark(
            f"{name_of(source)}: these features may be outcomes, since all candidates that were "
            f"not picked have one value: {listed(filled)}; exclude=[…] leaves columns out"
        )
    if names := partial + copies:
        shown = listed([*map(repr, names)])
        remark(
            f"{name_of(source)}: outcomes, which are known of picks alone, are left out: {shown}"
        )
    return names
