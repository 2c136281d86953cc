"""Growing rows behave like a list that forgets its head; scratch memory is one thread's."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.maths.buffers import VIEWS, Rows, Scratch, fresh


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


def test_scratch_is_used_again_by_its_thread_alone() -> None:
    scratch, like = Scratch(), torch.zeros(0, dtype=torch.float64)
    first = scratch.empty((3, 4), like)
    assert (first.shape, first.dtype) == ((3, 4), torch.float64)
    assert scratch.empty((2, 5), like).data_ptr() == first.data_ptr()
    assert scratch.empty((2, 5), like.to(torch.float32)).dtype == torch.float32
    larger = scratch.empty((30, 40), like)
    assert scratch.empty((3, 4), like).data_ptr() == larger.data_ptr()  # not what was there before
    for length in range(2 * VIEWS):
        assert scratch.empty((length,), like).shape == (length,)
    with ThreadPoolExecutor(1) as other:
        elsewhere = other.submit(scratch.empty, (2, 5), like).result()
    assert scratch.empty((2, 5), like).data_ptr() != elsewhere.data_ptr()


def test_what_is_made_in_inference_mode_can_be_written_to_outside() -> None:
    rows = Rows(torch.zeros(1, 0, 2))
    with torch.inference_mode():
        scratch = Scratch()
        made = [fresh((2, 3), torch.zeros(1)), scratch.empty((2, 3), torch.zeros(1))]
        rows.append(torch.ones(1, 3, 2))
        rows.widen(3)
    for one in [*made, scratch.empty((2, 3), torch.zeros(1))]:
        one.fill_(1)
    rows.write(2, torch.full((1, 1, 3), 5.0))
    assert rows[0, 3].tolist() == [[[1, 1, 0], [5, 5, 5], [1, 1, 0]]]
