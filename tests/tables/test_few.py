"""A few rows have the features, the labels and the errors of many."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairbandit import Encoder, FairbanditError
from fairbandit.notices import noted
from fairbandit.tables import few

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
    "zone": [1, "1.0", 2.0, "02", None, 4, -9, np.int64(3)],
    "age": [20, 33.5, "40,5", "40.5", None, math.nan, True, -9, "-9", 1e99, 1e101, "old"],
    "job": ["01", "1", "cafe\u0301", "CAFÉ", None, "-9", " 01 ", True],
    "grade": [0, 1.0, "2.5", "2,5", False, 7, None, "-9.0", np.float64(1)],
    "flat": [3, 3.0, None, "3", -3.5, math.inf, np.float32(0.1)],
    "up": [True, False, "TRUE", 1, 0.0, None, pd.NA],
}


def encoder(**options: Any) -> Encoder:
    given: dict[str, Any] = {"group": "sex", "reward": "pay", "columns": COLUMNS}
    return Encoder.from_table(TABLE, **{**given, **options})


ENCODERS = {
    f"{missing}, {decimal}, {group}": encoder(
        missing=missing, decimal=decimal, group=group, missing_values=[-9, "?"], products=products
    )
    for missing, decimal, (group, products) in product(
        ["mean", "error"], ".,", [("sex", None), (["sex", "zone"], [["age", "job"]])]
    )
}


def answer(call: Any, *given: Any) -> Any:
    """The bits that a call returns, or its error, and its notices."""
    with noted() as notes:
        try:
            found = call(*given)
        except FairbanditError as error:
            found = str(error)
    if isinstance(found, np.ndarray):
        found = found.view(np.int64).tolist()
    return found, notes


@pytest.mark.parametrize("kind", ENCODERS)
@settings(max_examples=40, phases=[Phase.generate])
@given(
    st.lists(
        st.fixed_dictionaries({k: st.sampled_from(v) for k, v in CELLS.items()}),
        min_size=1,
        max_size=3,
    )
)
def test_a_few_rows_are_encoded_like_many(kind, rows):
    state = json.dumps(ENCODERS[kind].state())
    found = list[Any]()
    for limit in (few.FEW_ROWS, 0):
        own = Encoder(**json.loads(state))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(few, "FEW_ROWS", limit)
            bits, notes = answer(own, rows)
            found.append((bits, notes, isinstance(bits, str) or own.labels_of(rows)))
    assert found[0] == found[1]


def test_frames_and_columns_are_encoded_like_rows():
    own = ENCODERS["mean, ., sex"]
    frame = pd.DataFrame(TABLE).drop(columns="pay")
    expected = own(frame.to_dict("records"))
    assert np.array_equal(own(pd.concat([frame] * 20))[:COUNT], expected)  # these are many
    forms = [frame, frame[::-1][::-1], frame.to_dict("list"), frame.astype(object)]
    forms += [frame.convert_dtypes(), frame.astype({"job": "category", "age": "float32"})]
    for form in forms:
        assert np.array_equal(own(form), expected)
