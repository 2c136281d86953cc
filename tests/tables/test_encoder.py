"""An encoder gives the same features, labels and notices for each form of the same rows."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairbandit import Encoder, FairbanditError
from fairbandit.notices import noted

COUNT = 60

TABLE = {
    "sex": ["f", "m"] * 30,
    "zone": [1, 2, 3] * 20,
    "age": [20 + row % 41 for row in range(COUNT)],
    "job": ["01", "1", "café"] * 20,
    "grade": [0, 1, 2.5] * 20,
    "flat": [3.0] * COUNT,
    "up": [row % 4 == 0 for row in range(COUNT)],
    "pay": [math.sin(row) for row in range(COUNT)],
}
COLUMNS = {
    "age": None,
    "job": {"codes": ["01", "café"], "reference": ["1"]},
    "grade": "category",
    "flat": None,
    "up": None,
}
CELLS: dict[str, list[Any]] = {
    "sex": ["f", " m", "new", None, "-9"],
    "zone": ["1", "1.0", "3,0", " 2", "02", None, "4", "-9"],
    "age": ["20", "33.5", "40,5", "40.5", None, "TRUE", "-9", "1e99", "1e101", "old"],
    "job": ["01", "1", "cafe\u0301", "CAFÉ", None, "-9", " 01 "],
    "grade": [0.0, 1.0, 2.5, 7.5, None, math.nan, -9.0, np.float64(1)],
    "flat": [3, None, -3, -9, np.int64(3)],
    "up": [True, False, None, pd.NA, np.bool_(True)],
}


def encoder(**options: Any) -> Encoder:
    given: dict[str, Any] = {"group": "sex", "reward": "pay", "columns": COLUMNS}
    return Encoder.from_table(TABLE, **{**given, **options})


ENCODERS = {
    f"{missing}, {decimal}, {group}": encoder(
        missing=missing, decimal=decimal, group=group, missing_values=[-9, "?"], products=products
    )
    for missing, decimal, group, products in (
        ("mean", ".", "sex", None),
        ("mean", ",", ["sex", "zone"], [["age", "job"]]),
        ("error", ".", ["sex", "zone"], [["age", "job"]]),
        ("error", ",", "sex", None),
    )
}


def answer(encoder: Encoder, rows: Any) -> Any:
    """The bits of the features of rows and their labels, or the error, and the notices."""
    with noted() as notes:
        try:
            return encoder.encode(rows).view(np.int64).tolist(), encoder.labelled(rows)[1], notes
        except FairbanditError as error:
            return str(error)


@pytest.mark.parametrize("kind", ENCODERS)
@settings(max_examples=15, phases=[Phase.generate])
@given(
    st.lists(
        st.fixed_dictionaries({k: st.sampled_from(v) for k, v in CELLS.items()}),
        min_size=1,
        max_size=3,
    )
)
def test_rows_are_encoded_like_a_typed_table(kind, rows):
    """Rows are read by a loop, and an Arrow table by the rules of columns."""
    state = json.dumps(ENCODERS[kind].state())
    columns = {name: pd.Series([row[name] for row in rows], dtype=object) for name in CELLS}
    kinds = {"grade": "float64", "flat": "Int64", "up": "boolean"}
    arrow = pa.Table.from_pandas(
        pd.DataFrame({k: c.astype(kinds.get(k, "string")) for k, c in columns.items()})
    )
    first, *others = (
        answer(Encoder(**json.loads(state)), form)
        for form in (rows, arrow, pd.DataFrame(columns), {k: [*c] for k, c in columns.items()})
    )
    for other in others:
        assert other == first


def test_features_are_those_of_a_plain_computation():
    """Standardised numbers and indicators, by hand; a cell that is lacking is the mean, 0."""
    own = ENCODERS["mean, ., sex"]
    rows: list[dict[str, Any]] = [
        {"sex": "m", "age": 30, "job": "café", "grade": "2.5", "flat": 3, "up": True},
        {"sex": "f", "age": None, "job": "1", "grade": 1, "flat": None, "up": "false"},
    ]
    ages, ups = np.array(TABLE["age"], float), np.array(TABLE["up"], float)
    found = dict(zip(own.names, own.encode(rows).T, strict=True))
    third = math.sqrt(1 / 3 * 2 / 3)
    expected = {
        "age": [(30 - ages.mean()) / ages.std(), 0.0],
        "job=01": [-1 / 3 / third, -1 / 3 / third],
        "job=café": [2 / 3 / third, -1 / 3 / third],
        "grade=2.5": [2 / 3 / third, -1 / 3 / third],
        "flat": [0.0, 0.0],
        "up": [(1 - ups.mean()) / ups.std(), -ups.mean() / ups.std()],
        "sex=f": [-1.0, 1.0],
        "bias": [1.0, 1.0],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)
        assert np.array_equal(np.signbit(found[name]), np.signbit(values))
    decoded = [
        own.decode(x, [key for key in row if row[key] is None])
        for x, row in zip(own.encode(rows), rows, strict=True)
    ]
    assert [row["job"] for row in decoded] == ["café", "1"]
    assert (decoded[0]["age"], decoded[0]["grade"], decoded[1]["grade"]) == (30, 2.5, 1)
    assert math.isnan(decoded[1]["age"])


def test_a_state_of_an_earlier_version_is_read():
    own = encoder(group="sex", products=[["age", "job"]], missing="mean")
    state, lists, products = own.state(), list[Any](), list[Any]()
    for column in state["columns"]:
        kind, keys = column["type"], column.get("means", [column.get("mean")])
        spread = column.get("deviations", [column.get("deviation")])
        if kind == "product":
            products.append([column["one"], column["other"], keys, spread])
            continue
        label, codes = column.get("label", False), column.get("codes", [])
        plain = [column["name"], label, codes, column.get("reference", []), keys, spread]
        span = [column["low"], column["high"]] if kind == "number" else []
        lists.append([*plain, span, column.get("whole", False)])
    old = Encoder(**json.loads(json.dumps({**state, "columns": lists, "products": products})))
    assert old == own
    assert old.state() == state


@pytest.mark.parametrize(
    "changed",
    [{"mean": "3.5"}, {"codes": ["a"]}, {"means": [0.0, None, 0.0]}, {"one": "pay"}],
)
def test_a_crafted_state_is_refused(changed):
    own = encoder(group="sex", columns={"age": None, "job": "category"}, products=[["age", "age"]])
    columns = own.state()["columns"]
    column, *_ = [column for column in columns if column.keys() >= changed.keys()]
    with pytest.raises((ValueError, KeyError, msgspec.ValidationError)):
        Encoder(**{**own.state(), "columns": [*columns, {**column, **changed}]})
