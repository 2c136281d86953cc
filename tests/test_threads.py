"""Work is shared among threads without a trace of it in what comes back."""

import threading

import pytest
import torch

from fairbandit.threads import Scratch, each, threads
from tests import support


@pytest.mark.parametrize("count", [1, 3])
def test_results_come_in_the_order_of_the_pieces(count: int) -> None:
    with threads(count):
        assert each(lambda piece: piece**2, range(20)) == [piece**2 for piece in range(20)]


def test_so_many_threads_work_at_the_same_time() -> None:
    def meet(barrier: threading.Barrier) -> int:
        barrier.wait(10)  # until all of them are here
        return threading.get_ident()

    with threads(3):
        assert len(set(each(meet, [threading.Barrier(3)] * 3))) == 3
    assert each(lambda _: threading.get_ident(), [0]) == [threading.get_ident()]


def test_an_error_in_a_thread_is_raised() -> None:
    with threads(2), pytest.raises(ZeroDivisionError):
        each(lambda piece: 1 // piece, [1, 0, 2])


def test_torch_keeps_to_one_thread_for_the_time() -> None:
    before = torch.get_num_threads()
    with threads(2):
        assert each(lambda _: torch.get_num_threads(), range(4)) == [1] * 4
    assert torch.get_num_threads() == before


def test_scratch_is_used_again_by_its_thread_alone() -> None:
    scratch, like = Scratch(), torch.zeros(0, dtype=torch.float64)
    first = scratch.empty((3, 4), like)
    assert (first.shape, first.dtype) == ((3, 4), torch.float64)
    assert scratch.empty((2, 5), like).data_ptr() == first.data_ptr()
    assert scratch.empty((2, 5), like.to(torch.float32)).dtype == torch.float32
    with threads(2):
        (other,) = each(lambda _: scratch.empty((2, 5), like).fill_(1), [0])
    assert scratch.empty((2, 5), like).fill_(0).data_ptr() != other.data_ptr()
    assert bool((other == 1).all())


def test_any_number_of_threads_decides_alike() -> None:
    found = []
    for count in (1, 3):
        with threads(count):
            chosen, world = support.policy("fair_greedy"), support.environment()
            found.append(support.actions(chosen, world, 300, 3))
    assert torch.equal(*found)
