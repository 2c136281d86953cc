from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fairbandit.environments.encoding import Encoding, Feature, StandardScaler
from fairbandit.environments.reading import Block
from fairbandit.errors import FairbanditError


def block(**columns: Any) -> Block:
    return Block(Path("t.csv"), 10, pa.RecordBatch.from_pydict(columns))


def encode(columns: dict[str, Any], bias: bool = False, **cells: Any) -> Any:
    return Encoding(columns, bias).encode(block(**cells)).tolist()


def test_order_reference_and_bias():
    columns = {"job": {"codes": [3, 1], "reference": [2]}, "age": None}
    encoding = Encoding(columns, bias=True)
    assert encoding.names == ["job=3", "job=1", "age", "bias"]
    rows = encoding.encode(block(job=["1", "2.0", "03"], age=[7, 8, 9])).tolist()
    assert rows == [[0, 1, 7, 1], [0, 0, 8, 1], [1, 0, 9, 1]]


def test_text_codes():
    assert encode({"town": ["n", "s"]}, town=["s", " n "]) == [[0, 1], [1, 0]]
    assert encode({"zip": ["01", "1"]}, zip=["1", "01"]) == [[0, 1], [1, 0]]


def test_columns_come_from_the_code_book():
    assert encode({"job": [1, 2, 3]}, job=[2, 2]) == [[0, 1, 0], [0, 1, 0]]


def test_unknown_code():
    with pytest.raises(FairbanditError) as caught:
        encode({"job": {"codes": [1, 2], "reference": [0]}}, job=[1, 0, 7])
    assert "column 'job', row 13: expected one of the codes 1, 2, 0; got 7.0" in str(caught.value)
    with pytest.raises(FairbanditError, match=r"column 'town', row 11: .*codes 'n', 's'; got 'w'"):
        encode({"town": ["n", "s"]}, town=["w"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (5, "expected null"),
        ("abc", "expected null"),
        ([], "expected null"),
        ({"codes": []}, "expected null"),
        ({"reference": [0]}, "expected null"),
        ({"codes": [1], "refs": [0]}, "expected null"),
        ({"codes": [1], "reference": 0}, "expected null"),
        ([1, "a"], "all numbers or all texts"),
        ([True, False], "all numbers or all texts"),
        ([None], "all numbers or all texts"),
        ([1, 1.0], "stands twice"),
        ({"codes": [1], "reference": [1]}, "stands twice"),
        (["True", "true"], "stands twice"),
        ([1, float("nan")], "a number that float64 holds"),
        ([10**400], "a number that float64 holds"),
        ([2**53 + 1], "a number that float64 holds"),
    ],
)
def test_spec_that_is_none(spec, message):
    with pytest.raises(FairbanditError, match=rf"environment\.columns\.job: .*{message}"):
        Feature.parse("job", spec)


def test_no_columns():
    with pytest.raises(FairbanditError, match=r"environment\.columns is empty"):
        Encoding({}, bias=True)


@given(st.data())
def test_one_hot_can_be_read_back(data):
    book = data.draw(st.lists(st.integers(-50, 50), min_size=1, max_size=8, unique=True))
    split = data.draw(st.integers(1, len(book)))
    cells = data.draw(st.lists(st.sampled_from(book), min_size=1, max_size=30))
    spec = {"codes": book[:split], "reference": book[split:]}
    rows = np.array(encode({"job": spec}, job=cells))
    assert rows.shape == (len(cells), split)
    back = [book[row.argmax()] if row.any() else None for row in rows]
    assert back == [cell if cell in book[:split] else None for cell in cells]
    assert set(rows.sum(axis=1)) <= {0.0, 1.0}


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.floats(-1e6, 1e6),
    ),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_moments_do_not_depend_on_the_blocks(rows, cuts):
    moments = StandardScaler(rows.shape[1])
    for piece in np.split(rows, sorted(cuts)):
        moments.add(piece)
    constant = (rows == rows[0]).all(axis=0)
    spread = np.abs(rows).max()
    assert moments.count == len(rows)
    np.testing.assert_allclose(moments.centre, rows.mean(axis=0), rtol=1e-12, atol=1e-12 * spread)
    unit = spread or 1.0  # or else NumPy's squares of tiny values vanish
    expected = np.where(constant, 1.0, (rows / unit).std(axis=0) * unit)
    np.testing.assert_allclose(moments.scale, expected, rtol=1e-9, atol=1e-12 * spread)


def test_far_from_zero_nothing_cancels():
    rows = np.array([[1e9], [1e9 + 1], [1e9 + 2]])
    moments = StandardScaler(1)
    for row in rows:
        moments.add(row[None])
    np.testing.assert_allclose(moments.scale, rows.std(axis=0), rtol=1e-6)


def test_blocks_of_very_different_size():
    """The unit of a column follows its largest value so far."""
    rows = np.array([[0.0], [1e-200], [3e-200], [1e-100], [-1e-100], [1.0], [1e90], [3e90]])
    for cut in (0, 1, 3, 5, 6, 7):
        moments = StandardScaler(1)
        moments.add(rows[:cut])
        moments.add(rows[cut:])
        np.testing.assert_allclose(moments.centre, 5e89, rtol=1e-14)
        np.testing.assert_allclose(moments.scale, (rows / 1e90).std(axis=0) * 1e90, rtol=1e-14)
    small = StandardScaler(1)
    for row in rows[:3]:
        small.add(row[None])
    np.testing.assert_allclose(small.scale, (rows[:3] * 1e200).std(axis=0) * 1e-200, rtol=1e-14)


def test_constant_column_is_centred_to_zero_exactly():
    moments = StandardScaler(1)
    moments.add(np.full((7, 1), 0.1))
    moments.add(np.full((3, 1), 0.1))
    assert (moments.centre[0], moments.scale[0]) == (0.1, 1.0)


@pytest.mark.parametrize("columns", [["a", "b"], "a", 3, None])
def test_columns_that_are_no_mapping(columns):
    with pytest.raises(FairbanditError, match=r"environment\.columns must be a mapping"):
        Encoding(columns, bias=True)


def test_codes_with_commas_stay_apart():
    with pytest.raises(FairbanditError, match=r"codes 'a, b', 'c'; got 'a'"):
        encode({"town": ["a, b", "c"]}, town=["a"])
