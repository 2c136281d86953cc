"""Running reductions against NumPy on the whole."""

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit.metrics import REDUCTIONS, Reduce, RunningReduction

WHOLE: dict[str, Any] = {
    "sum": lambda values: values.cumsum(1),
    "mean": lambda values: values.cumsum(1) / np.arange(1, values.shape[1] + 1),
    "last": lambda values: values,
    "max": lambda values: np.maximum.accumulate(values, 1),
}


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_pieces_give_the_reduction_of_the_whole(reduce: Reduce) -> None:
    values = np.random.default_rng(0).normal(size=(3, 50)) - 2
    pieces = [torch.from_numpy(piece) for piece in np.split(values, [1, 20, 21], 1)]
    running = RunningReduction(reduce, 3)
    found = [running.add(piece) for piece in pieces]
    np.testing.assert_allclose(torch.cat(found, 1).numpy(), WHOLE[reduce](values), rtol=1e-12)
