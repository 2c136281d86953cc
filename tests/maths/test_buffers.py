"""Growing rows behave like a list that forgets its head; scratch memory is one thread's."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.maths.buffers import Rows, Scratch, fresh


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


def test_scratch_belongs_to_its_thread() -> None:
    """What another thread asks for and fills leaves this thread's memory as it is."""
    scratch, like = Scratch(), torch.zeros(0, dtype=torch.float64)
    mine = scratch.empty((2, 5), like).fill_(1)
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(lambda: scratch.empty((2, 5), like).fill_(2)).result()
    assert mine.eq(1).all()
    assert theirs.eq(2).all()


def test_scratch_has_the_shape_and_the_type_asked_for() -> None:
    """Also where larger memory has to be made."""
    scratch, like = Scratch(), torch.zeros(0, dtype=torch.float64)
    shapes = [(3, 4), (2, 5), (30, 40), (3, 4), *((length,) for length in range(500))]
    for shape in shapes:
        for dtype in (torch.float64, torch.float32):
            given = scratch.empty(shape, like.to(dtype))
            assert (given.shape, given.dtype) == (shape, dtype)
            assert given.fill_(7).eq(7).all()


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
