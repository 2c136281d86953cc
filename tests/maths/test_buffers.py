"""Growing rows behave like a list that forgets its head."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.maths.buffers import Rows


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 60)), max_size=12))
def test_like_a_list(steps: list[tuple[int, int]]) -> None:
    rows, reference, gone = Rows(torch.zeros(2, 0, dtype=torch.int64)), list[int](), 0
    for added, forgotten in steps:
        start = len(reference)
        reference += range(start, start + added)
        rows.append(torch.arange(start, start + added).expand(2, -1))
        gone = min(gone + forgotten, len(reference))
        rows.forget(gone)
        assert rows.count == len(reference)
        assert rows[gone, rows.count][1].tolist() == reference[gone:]
    again = Rows(torch.zeros(2, 0, dtype=torch.int64))
    again.load_state(rows.state())
    assert torch.equal(again[gone, again.count], rows[gone, rows.count])


def test_rows_that_are_gone() -> None:
    rows = Rows(torch.zeros(1, 0))
    rows.append(torch.ones(1, 200))
    rows.forget(150)
    with pytest.raises(IndexError, match="rows 1 to 200 are not kept"):
        rows[0, 200]


def test_rows_are_written_and_widened() -> None:
    rows = Rows(torch.zeros(1, 0, 2))
    rows.append(torch.ones(1, 200, 2))
    rows.write(160, torch.full((1, 1, 2), 7.0))
    rows.forget(150)
    rows.write(150, torch.full((1, 1, 2), 9.0))  # it is gone
    rows.widen(3)
    rows.append(torch.ones(1, 1, 3))
    expected = torch.ones(51, 3)
    expected[9], expected[:50, 2] = 7.0, 0.0
    assert torch.equal(rows[150, 201][0], expected)
