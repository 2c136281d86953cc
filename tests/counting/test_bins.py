"""The bins bound how far any drift of the model moves a score."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.counting import bins as bins_module
from fairbandit.counting.bins import SHARES, bins_of


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 1.0, 30.0]))
def test_no_score_moves_further(seed: int, rank_deficient: bool, wander: float) -> None:
    """Of contexts that are alike, or that become others on the way."""
    draws = np.random.default_rng(seed)
    b, d = 2, 3
    every = draws.normal(size=(b, 400, d)) + wander * np.linspace(0, 1, 400)[:, None]
    if rank_deficient:
        every[..., 2] = every[..., 0]
    contexts = torch.from_numpy(every)
    start, stop, gone, bins = 0, 30, 0, None
    while stop <= 400:
        own = contexts[:, start:stop]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bins_module, "SAMPLE", 16)
            bins = bins_of(own) if bins is None else bins.moved(gone, own)
        assert bins.bin.shape == (b, stop - start)
        drift = torch.from_numpy(draws.normal(size=(b, d, 1)))
        spread = torch.linalg.vector_norm(bins.norms.factor.transpose(1, 2) @ drift, dim=1)
        moved = ((own - bins.norms.mean[:, None]) @ drift).squeeze(2).abs()
        assert bool((moved <= bins.radius.gather(1, bins.bin) * spread).all())
        assert int(bins.bin.max()) < len(SHARES)
        gone = int(draws.integers(0, min(40, stop - start)))
        start += gone
        stop += int(draws.integers(1, 60))


def test_contexts_are_measured_once_until_as_many_came() -> None:
    """The mean and the covariance stay for so long; then they are those of what is there."""
    contexts = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 500, 3)))
    bins = bins_of(contexts[:, :200])
    later = bins.moved(150, contexts[:, 150:400])
    assert later.norms is bins.norms
    assert torch.equal(later.measured[:, :50], bins.measured[:, 150:])
    assert torch.equal(later.measured[:, 50:], bins.norms.of(contexts[:, 200:400]))
    fresh = later.moved(1, contexts[:, 151:401])
    assert torch.equal(fresh.norms.mean, contexts[:, 151:401].mean(1))


def test_a_sample_unlike_the_rest() -> None:
    """The sample's covariance is 0; the bound is loose then, but finite."""
    contexts = torch.zeros(1, 2 * bins_module.SAMPLE, 2, dtype=torch.float64)
    contexts[:, 1::4], contexts[:, 3::4] = 1e100, -1e100
    assert bool(bins_of(contexts).radius.isfinite().all())
