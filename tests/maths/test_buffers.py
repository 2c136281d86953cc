"""Growing rows behave like a list that forgets its head; scratch memory is one thread's."""

from concurrent.futures import ThreadPoolExecutor

import torch

from fairbandit.maths.buffers import Scratch


def test_scratch_belongs_to_its_thread() -> None:
    """What another thread asks for and fills leaves this thread's memory as it is."""
    scratch, like = Scratch(), torch.zeros(0, dtype=torch.float64)
    mine = scratch.empty((2, 5), like).fill_(1)
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(lambda: scratch.empty((2, 5), like).fill_(2)).result()
    assert mine.eq(1).all()
    assert theirs.eq(2).all()
