"""Counts over many short segments of a table equal those of loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit.counting import segments
from fairbandit.counting.segments import count_segments


def loops(
    table: Tensor,
    begin: Tensor,
    length: Tensor,
    values: Tensor,
    theta: Tensor,
    model: Tensor | None,
) -> Tensor:
    counts = torch.zeros(values.shape, dtype=torch.float64)
    for at in np.ndindex(*begin.shape):
        first, own = int(begin[at]), theta[0 if model is None else model[at]]
        scores = table[first : first + int(length[at])] @ own
        counts[at] = (scores[:, None] <= values[at]).sum(0)
    return counts


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    models=st.sampled_from([1, 1, 3]),
    shape=st.sampled_from([(1,), (7,), (2, 1, 5), (2, 3, 2)]),
    asks=st.integers(1, 3),
    longest=st.sampled_from([0, 1, 15, 90]),
    chunk=st.sampled_from([1, 30, 1 << 13]),
)
def test_against_loops(
    seed: int, models: int, shape: tuple[int, ...], asks: int, longest: int, chunk: int
) -> None:
    """With whole numbers, so that there are many ties and every score is exact."""
    draws = np.random.default_rng(seed)
    size = 100
    table = torch.from_numpy(draws.integers(-2, 3, (size, 3)).astype(float))
    length = np.minimum(draws.integers(0, longest + 1, shape) * (draws.random(shape) < 0.7), size)
    begin = torch.from_numpy(draws.integers(0, size + 1 - length))
    asked = (
        table,
        begin,
        torch.from_numpy(length),
        torch.from_numpy(draws.integers(-4, 5, (*shape, asks)).astype(float)),
        torch.from_numpy(draws.integers(-2, 3, (models, 3)).astype(float)),
        torch.from_numpy(draws.integers(0, models, shape)) if models > 1 else None,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "CHUNK", chunk)
        found = count_segments(*asked)
    assert torch.equal(found, loops(*asked))


@pytest.mark.parametrize("lengths", [[16, 32, 500], [1, 0, 500], [0, 0, 0], [500] * 3])
@pytest.mark.parametrize("models", [1, 2])
def test_segments_to_the_end_of_the_table(lengths: list[int], models: int) -> None:
    """Empty segments begin after the last row."""
    table = torch.arange(500, dtype=torch.float64)[:, None]
    length = torch.tensor(lengths)
    theta = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)[:models]
    values = torch.tensor([[15.0], [0.0], [250.0]], dtype=torch.float64)
    model = torch.tensor([0, 1, 0]) if models > 1 else None
    asked = (table, 500 - length, length, values, theta, model)
    assert torch.equal(count_segments(*asked), loops(*asked))


def test_nothing_is_at_most_nan() -> None:
    table, ones = torch.zeros(5, 1).double(), torch.ones(1, 1).double()
    values = torch.tensor([[torch.nan, 0.0]], dtype=torch.float64)
    zero = torch.zeros(1, dtype=torch.int64)
    assert count_segments(table, zero, zero + 5, values, ones, None).tolist() == [[0, 5]]
