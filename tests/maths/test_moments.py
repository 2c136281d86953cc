import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairbandit.maths.moments import Moments

numbers = st.floats(-1e3, 1e3) | st.just(float("nan"))


@given(st.lists(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5), max_size=6))
def test_batches_merge_to_the_moments_of_all(batches):
    moments = Moments(2)
    for batch in batches:
        moments.add(torch.tensor(batch, dtype=torch.float64))
    together = np.array([row for batch in batches for row in batch]).reshape(-1, 2)
    for place in range(2):
        known = together[:, place][~np.isnan(together[:, place])]
        mean = known.mean() if len(known) else np.nan
        std = known.std(ddof=1) if len(known) > 1 else np.nan
        np.testing.assert_allclose(moments.mean[place], mean, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(moments.std[place], std, rtol=1e-9, atol=1e-6)


def test_a_large_offset_does_not_cancel():
    values = torch.tensor([[1e9 + 1], [1e9 + 2], [1e9 + 3], [1e9 + 4]], dtype=torch.float64)
    moments = Moments(1)
    for value in values.split(1):
        moments.add(value)
    # a mean that is off by a rounding, 1e-7, counts; squares that cancel would be off by 1
    assert moments.std.item() == pytest.approx(math.sqrt(5 / 3), rel=1e-6)


def test_part_of_the_places():
    moments = Moments(3)
    moments.add(torch.tensor([[1.0], [3.0]]), slice(1, 2))
    assert moments.mean[1] == 2.0
    assert moments.mean[[0, 2]].isnan().all()
