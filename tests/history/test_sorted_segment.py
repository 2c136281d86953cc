"""The sorted segment counts exactly what a scan counts, and is used where it pays."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.history import sorted_segment
from fairbandit.history.sorted_segment import SortedSegment


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1e-9, 0.01, 1.0]),
    st.booleans(),
    st.sampled_from([200, 1 << 18]),
)
def test_counts_are_those_of_a_scan(seed: int, drift: float, whole: bool, chunk: int) -> None:
    """Any drift; repeated, rank-deficient, constant and no contexts, ties included."""
    draws = np.random.default_rng(seed)
    b, g, length, d, u, k = 2, 4, 150, 4, 3, 6
    size = (b, g, length, d)
    x = draws.integers(-2, 3, size).astype(float) if whole else draws.normal(size=size)
    x[..., 2] = x[..., 0] + x[..., 1]
    x[..., 3] = 1.0
    x[:, :, :2] *= 50
    x[:, 2] = x[:, 2, :1]
    contexts = torch.from_numpy(x)
    reference = torch.from_numpy(draws.normal(size=(b, d)))
    theta = reference[:, None] + drift * torch.from_numpy(draws.normal(size=(b, u, d)))
    groups = torch.from_numpy(draws.integers(0, g, (b, u, k)))
    own = torch.stack([contexts[i][groups[i]] for i in range(b)])  # (B, U, K, L, d)
    scores = torch.einsum("bukld,bud->bukl", own, theta)
    picked = torch.from_numpy(draws.integers(0, length, (b, u, k, 1)))
    magnitudes = torch.einsum("bukld,bud->bukl", own.abs(), theta.abs())
    values = (scores + 2e-15 * magnitudes).gather(3, picked)[..., 0]  # ties within rounding
    start = torch.tensor([0, 10, length // 2, length])
    held = [contexts[:, group, low:] for group, low in enumerate(start.tolist())]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sorted_segment, "CHUNK", chunk)
        segment = SortedSegment(held, start.tolist(), reference)
        found = segment.count_le(groups, values, torch.arange(u), theta, torch.inf)
    assert segment.exact
    assert found is not None
    inside = torch.arange(length) >= start[groups][..., None]
    assert torch.equal(found[0], ((scores <= values[..., None]) & inside).sum(3).double())


def test_little_is_scored_again_after_a_small_drift() -> None:
    draws = np.random.default_rng(0)
    contexts = torch.from_numpy(draws.random((1, 50_000, 4)))
    theta = torch.from_numpy(draws.normal(size=(1, 4)))
    values = torch.linspace(-1, 2, 20, dtype=torch.float64).view(1, 1, 20)
    segment = SortedSegment([contexts], [0], theta)
    asked = torch.zeros(1, 1, 20, dtype=torch.int64), values, torch.zeros(1, dtype=torch.int64)
    same = segment.count_le(*asked, theta[:, None], torch.inf)
    near = segment.count_le(*asked, theta[:, None] + 1e-3, torch.inf)
    assert same is not None
    assert near is not None
    assert same[1] <= 20
    assert 0 < near[1] < 20 * 50_000 * 0.01
    assert segment.count_le(*asked, theta[:, None] + 1e-3, near[1] - 1) is None
