"""The bins bound how far any drift of the model moves a score."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.counting.bins import SHARES, GroupBins


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 1.0, 30.0]))
def test_no_score_moves_further(seed: int, rank_deficient: bool, wander: float) -> None:
    """As the window moves on and grows, and its contexts become others than the first."""
    draws = np.random.default_rng(seed)
    b, d = 2, 3
    every = draws.normal(size=(b, 400, d)) + wander * np.linspace(0, 1, 400)[:, None]
    if rank_deficient:
        every[..., 2] = every[..., 0]
    contexts, group_bins = torch.from_numpy(every), GroupBins(1)
    start, stop = 0, 30
    while stop <= 400:
        own = contexts[:, start:stop]
        bins = group_bins.of(0, own, start)
        assert bins.bin.shape == (b, stop - start)
        drift = torch.from_numpy(draws.normal(size=(b, d, 1)))
        spread = torch.linalg.vector_norm(bins.factor.transpose(1, 2) @ drift, dim=1)
        moved = ((own - bins.mean[:, None]) @ drift).squeeze(2).abs()
        assert bool((moved <= bins.radius.gather(1, bins.bin) * spread).all())
        assert int(bins.bin.max()) < len(SHARES)
        start += int(draws.integers(0, min(40, stop - start) + 1))
        stop += int(draws.integers(1, 60))
